"""Settings of JAX that change results: the commands set them, the library requires them.

Random keys have an explicit generator. Other settings change the rounding of results alone; they
are recorded with a result.
"""

import os
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from common_jax.errors import UserError

if TYPE_CHECKING:
    import jax

GENERATOR = "threefry2x32"
REQUIRED: dict[str, Any] = {
    "jax_enable_x64": False,
    "jax_threefry_partitionable": True,
    "jax_random_seed_offset": 0,
    "jax_default_matmul_precision": None,  # that of the device
}
# Settings that change results, or prevent them, whose variables the commands remove.
_VARIABLES = (
    *(name.upper() for name in REQUIRED),
    "JAX_DEFAULT_PRNG_IMPL",
    "JAX_SOFTMAX_CUSTOM_JVP",
    "JAX_ALLOW_F16_REDUCTIONS",
    "JAX_EXPLICIT_X64_DTYPES",
    "JAX_NUMPY_DTYPE_PROMOTION",
    "JAX_NUMPY_RANK_PROMOTION",
    "JAX_HIGH_DYNAMIC_RANGE_GUMBEL",
)
_RECORDED = (
    "XLA_FLAGS",
    "LIBTPU_INIT_ARGS",
    "NVIDIA_TF32_OVERRIDE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "JAX_DISABLE_JIT",
    "JAX_DISABLE_MOST_OPTIMIZATIONS",
    "JAX_OPTIMIZATION_LEVEL",
    "JAX_EXEC_TIME_OPTIMIZATION_EFFORT",
    "JAX_USE_SHARDY_PARTITIONER",
)


def remove_variables(environment: MutableMapping[str, str]) -> list[str]:
    """Removes the variables of settings that the commands set, before jax reads them; returns them
    as NAME=VALUE."""
    return [f"{name}={environment.pop(name)}" for name in _VARIABLES if name in environment]


def require_settings() -> None:
    """Raises UserError if a setting of jax would change results."""
    import jax

    for name, wanted in REQUIRED.items():
        if (value := getattr(jax.config, name, wanted)) != wanted:
            raise UserError(
                f"{name}={value}: gives other results than {name}={wanted}, which is required; "
                f"jax.config.update({name!r}, {wanted!r}) sets it"
            )


def random_key(seed: "int | jax.Array") -> "jax.Array":
    """The key of a seed, of the same generator whatever the default is."""
    import jax

    return jax.random.key(seed, impl=GENERATOR)


def recorded_variables() -> dict[str, str]:
    """The variables that are set and change the rounding of results."""
    return {name: os.environ[name] for name in _RECORDED if os.environ.get(name)}
