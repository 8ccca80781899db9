"""Where parameters and activations lie on a mesh, by the names of their axes.

Three mesh axes (`common_jax.config.MeshConfig`): rows of a batch are spread over "data" and "fsdp",
parameters by `PARAMETERS`, wide activations by `ACTIVATIONS`. XLA inserts the communication that
this asks for.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Shaped

ROWS = ("data", "fsdp")
PARAMETERS = {"vocab": "tensor", "heads": "tensor", "mlp": "tensor", "embed": "fsdp"}
ACTIVATIONS = {"vocab": "tensor", "heads": "tensor", "mlp": "tensor"}

_mesh: contextvars.ContextVar[Mesh | None] = contextvars.ContextVar("mesh", default=None)


@contextlib.contextmanager
def activations_on(mesh: Mesh) -> Iterator[None]:
    """What is traced inside has its activations spread over the mesh, by `spread`."""
    token = _mesh.set(mesh)
    try:
        yield
    finally:
        _mesh.reset(token)


def platform() -> str:
    """Of the devices that a program traced inside `activations_on` is for: "cpu", "gpu" or "tpu".
    "cpu" outside: the program never depends on the machine that traces it."""
    mesh = _mesh.get()
    return "cpu" if mesh is None else mesh.devices.flat[0].platform


def spread(
    x: Shaped[Array, "B *dims"], name: str | None = None, axis: int = -1
) -> Shaped[Array, "B *dims"]:
    """An activation, constrained to lie where the mesh of `activations_on` has it: its rows over
    `ROWS`, one more axis by its name, all others whole. Outside `activations_on`, x as it is.

    An axis whose size the mesh axes do not divide stays whole.

    Args:
      name: of the axis `axis`, in `ACTIVATIONS`; another name, or none, does not spread it.
    """
    mesh = _mesh.get()
    if mesh is None:
        return x
    spec: list[str | tuple[str, ...] | None] = [None] * x.ndim
    if x.shape[0] % math.prod(mesh.shape[axis] for axis in ROWS) == 0:
        spec[0] = ROWS
    if (over := ACTIVATIONS.get(name or "")) and x.shape[axis] % mesh.shape[over] == 0:
        spec[axis] = over
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def gathered(
    weights: Shaped[Array | np.ndarray, "*dims"], *names: str
) -> Shaped[Array | np.ndarray, "*dims"]:
    """A parameter as each device of an "fsdp" axis reads it: whole but for the axes that
    `ACTIVATIONS` spreads. Outside `activations_on`, the parameter as it is.

    Args:
      names: of its axes.
    """
    mesh = _mesh.get()
    if mesh is None:
        return weights
    axes = [ACTIVATIONS.get(name) for name in names]
    sizes = zip(weights.shape, axes, strict=True)
    spec = [over if over and size % mesh.shape[over] == 0 else None for size, over in sizes]
    return jax.lax.with_sharding_constraint(weights, NamedSharding(mesh, P(*spec)))
