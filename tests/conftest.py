"""Test settings: eight CPU devices, strict promotion of dtypes and ranks, fast compilation."""

import atexit
import contextlib
import functools
import gc
import inspect
import logging
import os
import subprocess
import sys
import tempfile
import typing

DEVICES = "--xla_force_host_platform_device_count=8"
# The models of tests are small: optimizing them takes longer than it saves. These two and
# JAX_DISABLE_MOST_OPTIMIZATIONS save three quarters of a step's compilation time.
QUICK = ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]


def supported_flags(flags):
    """The flags that the installed jaxlib supports; any other would abort this process.

    A child process aborts and prints the unsupported ones. If it does not print a flag that is
    unknown to all versions, no flag is returned.
    """
    unknown_flag = "--xla_known_to_no_version=1"
    process = subprocess.run(
        [sys.executable, "-c", "from jaxlib import xla_client; xla_client.CompileOptions()"],
        env={**os.environ, "XLA_FLAGS": " ".join([unknown_flag, *flags])},
        capture_output=True,
        text=True,
    )
    return [flag for flag in flags if unknown_flag in process.stderr and flag not in process.stderr]


if DEVICES not in os.environ.get("XLA_FLAGS", ""):  # pytest's other processes have its flags
    flags = [os.environ.get("XLA_FLAGS", ""), DEVICES, *supported_flags(QUICK)]
    os.environ["XLA_FLAGS"] = " ".join(flags).strip()
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

os.environ["JAX_PLATFORMS"] = "cpu"

import hypothesis  # noqa: E402
import jax  # noqa: E402  (reads the environment above)
import jaxtyping  # noqa: E402
import pytest  # noqa: E402
from jax.experimental.compilation_cache.compilation_cache import reset_cache  # noqa: E402

# No test is a test of time: examples take longer on a busy machine.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

# Source locations, which no test reads, and frequent garbage collection take a seventh of the time
# of tracing.
jax.config.update("jax_traceback_in_locations_limit", 0)
gc.set_threshold(50_000, 50, 50)


def has_arrays(hint):
    """Whether a type hint contains one of jaxtyping's, or a name, which may stand for one."""
    if typing.get_origin(hint) is typing.Literal:  # of strings, which are no names
        return False
    is_array = type(hint).__module__.startswith("jaxtyping.")
    is_name = isinstance(hint, str | typing.ForwardRef)
    return is_array or is_name or any(map(has_arrays, typing.get_args(hint)))


with_dims = jaxtyping.jaxtyped


def checked(function=None, **typechecker):
    """jaxtyping's decorator, but only types are checked of a function that has no arrays.

    Comparing dims makes decorating and calling a function ten times as slow.
    """
    if function is None:
        return functools.partial(checked, **typechecker)
    if inspect.isfunction(function) and not any(map(has_arrays, function.__annotations__.values())):
        return typechecker["typechecker"](function)
    return with_dims(function, **typechecker)


# for the import hook (--jaxtyping-packages), and for methods and dataclasses
jaxtyping.jaxtyped = jaxtyping._decorator.jaxtyped = checked

# A temporary compilation cache for all tests, which compile many programs repeatedly (a run and its
# resumption, a run and its evaluation).
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    compilation_cache = tempfile.TemporaryDirectory()
    atexit.register(compilation_cache.cleanup)
    # for pytest's other processes too
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compilation_cache.name
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Reports the exit status of an xdist worker that died; negative is a signal's number."""
    if error:
        with contextlib.suppress(subprocess.TimeoutExpired):
            node.gateway._io.popen.wait(60)
        status = node.gateway._io.popen.poll()
        sys.stderr.write(f"\nworker {node.gateway.id} died with exit status {status}\n")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    for item in items:
        mark = item.get_closest_marker("slow_for")
        if mark and {*mark.args} & {*item.callspec.id.split("-")}:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def logging_is_on():
    """Ends the silence that a quiet command has left, for the test after it."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def compilation_cache(tmp_path):
    """An empty folder for jax's cache of compiled programs, whose settings are restored after the
    test: a size limit that remained would stop the process from writing to the tests' cache."""
    prefixes = ("jax_compilation_cache_", "jax_persistent_cache_")
    settings = {
        name: value for name, value in jax.config.values.items() if name.startswith(prefixes)
    }
    folder = tmp_path / "compiled"
    jax.config.update("jax_compilation_cache_dir", str(folder))
    reset_cache()  # jax has opened the tests' folder
    yield folder
    for name, value in settings.items():
        jax.config.update(name, value)
    reset_cache()


@pytest.fixture
def settled_modules(monkeypatch, tmp_path_factory):
    """The modules of a command: without those that other tests have written in this process, and
    with a file of `__main__`, which pytest's other processes lack."""
    written = str(tmp_path_factory.getbasetemp())
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(written):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("__main__.__file__", __file__, raising=False)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """`tests.families.runs.TinyRuns`, in the folder that all processes of this session share."""
    from tests.families.runs import TinyRuns  # after the import hook

    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tiny_runs"
    shared.mkdir(exist_ok=True)
    return TinyRuns(shared)


@pytest.fixture(scope="module", params=("csan", "qanet", "attconv"))
def trained(request, tiny, tmp_path_factory):
    """Each family, and a folder with its files and its tiny run that a module's tests share."""
    from tests.families.runs import FAMILIES

    folder = tmp_path_factory.mktemp(request.param)
    return FAMILIES[request.param], tiny(request.param, folder)
