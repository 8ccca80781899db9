"""Sharding of parameters and activations over a mesh, by the names of their axes.

On the mesh (`common_jax.config.MeshConfig`) batch rows are sharded over "data" and "fsdp",
parameters by `PARAMETERS`, wide activations by `ACTIVATIONS`. XLA inserts the communication.
"""

import contextlib
import contextvars
import math
from collections.abc import Iterator

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Shaped

ROWS = ("data", "fsdp")
ACTIVATIONS = {"vocab": "tensor", "heads": "tensor", "mlp": "tensor"}
PARAMETERS = {**ACTIVATIONS, "embed": "fsdp"}

_mesh: contextvars.ContextVar[Mesh | None] = contextvars.ContextVar("mesh", default=None)


def row_shards(mesh: Mesh | AbstractMesh) -> int:
    """The number of parts into which the mesh divides the rows of a batch."""
    return math.prod(mesh.shape[axis] for axis in ROWS)


@contextlib.contextmanager
def activations_on(mesh: Mesh) -> Iterator[None]:
    """Sets the mesh over which `spread` shards the activations of functions traced inside."""
    token = _mesh.set(mesh)
    try:
        yield
    finally:
        _mesh.reset(token)


def platform() -> str:
    """The platform of the mesh of `activations_on`: "cpu", "gpu" or "tpu". Outside of it "cpu", so
    that a program does not depend on the machine that traces it."""
    mesh = _mesh.get()
    return "cpu" if mesh is None else mesh.devices.flat[0].platform


def spread(
    x: Shaped[Array, "B *dims"], name: str | None = None, axis: int = -1
) -> Shaped[Array, "B *dims"]:
    """Constrains an activation's sharding on the mesh of `activations_on`; outside, returns x.

    Rows are sharded over `ROWS`, and one more axis by its name. All others are replicated, as is
    an axis whose size is not divisible by the mesh axes.

    Args:
      name: of the axis `axis`; one that is not in `ACTIVATIONS` does not shard it.
    """
    mesh = _mesh.get()
    if mesh is None:
        return x
    spec: list[str | tuple[str, ...] | None] = [None] * x.ndim
    if x.shape[0] % row_shards(mesh) == 0:
        spec[0] = ROWS
    if (mesh_axis := ACTIVATIONS.get(name or "")) and x.shape[axis] % mesh.shape[mesh_axis] == 0:
        spec[axis] = mesh_axis
    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))


def gathered(
    weights: Shaped[Array | np.ndarray, "*dims"], *names: str
) -> Shaped[Array | np.ndarray, "*dims"]:
    """A parameter gathered over "fsdp": only the axes in `ACTIVATIONS` stay sharded. Outside
    `activations_on`, returns it unchanged.

    Args:
      names: of its axes.
    """
    mesh = _mesh.get()
    if mesh is None:
        return weights
    sizes = zip(weights.shape, map(ACTIVATIONS.get, names), strict=True)
    spec = [axis if axis and size % mesh.shape[axis] == 0 else None for size, axis in sizes]
    return jax.lax.with_sharding_constraint(weights, NamedSharding(mesh, P(*spec)))
