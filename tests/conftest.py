"""Eight CPU devices for every test, and the rules that keep surprises out of the arithmetic."""

import atexit
import os
import tempfile

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=8"
    # The models of tests are so small that compiling them well takes longer than running them
    # badly: these two and the next take three quarters of a step's compilation away.
    + " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

os.environ["JAX_PLATFORMS"] = "cpu"

import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# What was compiled is kept for the other tests, which compile much of it again (a run and its
# resumption, a run and its evaluation), and for none after them: nothing is left in a home.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    kept = tempfile.TemporaryDirectory()
    atexit.register(kept.cleanup)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = kept.name  # for pytest's other processes too
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
