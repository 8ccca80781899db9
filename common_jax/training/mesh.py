"""Devices as a mesh, and where arrays lie on it.

Three axes (their meaning: `common_jax.training.config.MeshConfig`). Layers name the axes of their
parameters (`flax.linen.with_logical_partitioning`), and `RULES` says which mesh axis each name is
spread over; the rest is XLA's, which inserts the communication.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common_jax.errors import UserError
from common_jax.training.config import MeshConfig

RULES = {"vocab": "tensor", "heads": "tensor", "mlp": "tensor", "embed": "fsdp"}
ROWS = ("data", "fsdp")  # the axes that the rows of a batch are spread over


def mesh_shape(config: MeshConfig, devices: int) -> dict[str, int]:
    """Devices along each axis, with -1 filled in.

    Raises:
      UserError: if there are fewer devices, or the rest does not come out even.
    """
    shape = dataclasses.asdict(config)
    asked = " x ".join(f"mesh.{name}={size}" for name, size in shape.items() if size != 1)
    known = math.prod(size for size in shape.values() if size != -1)
    if -1 in shape.values():
        rest = {name: devices // known for name, size in shape.items() if size == -1}
        if devices % known:
            raise UserError(f"{asked}: {devices} devices are not a multiple of {known}")
        return shape | rest
    if known > devices:
        raise UserError(f"{asked}: only {devices} devices here; -1 takes those that remain")
    return shape


def make_mesh(config: MeshConfig) -> Mesh:
    """The devices that `config` asks for.

    Raises:
      UserError: if there are fewer.
    """
    shape = mesh_shape(config, jax.device_count())
    devices = jax.devices()[: math.prod(shape.values())]
    return Mesh(np.array(devices).reshape(tuple(shape.values())), tuple(shape))


def replicated(mesh: Mesh) -> NamedSharding:
    """On every device, whole."""
    return NamedSharding(mesh, P())


def by_rows(mesh: Mesh) -> NamedSharding:
    """The first axis spread over `data` and `fsdp`."""
    return NamedSharding(mesh, P(ROWS))


def shardings(tree: Any, mesh: Mesh | AbstractMesh) -> Any:
    """Where each array of a tree lies, by the names that its layer gave to its axes.

    An axis that its mesh axis does not divide stays whole, as do those without a name.

    Args:
      tree: arrays or their shapes, in the boxes of `nn.with_logical_partitioning` or without.
      mesh: the devices.

    Returns:
      A tree of NamedSharding, without boxes.
    """

    def of(leaf: Any) -> NamedSharding:
        if not isinstance(leaf, nn.Partitioned):
            return NamedSharding(mesh, P())
        axes = [RULES.get(name) for name in leaf.names]
        whole = zip(leaf.value.shape, axes, strict=True)
        spec = [axis if axis and not size % mesh.shape[axis] else None for size, axis in whole]
        return NamedSharding(mesh, P(*spec))

    return jax.tree.map(of, tree, is_leaf=lambda leaf: isinstance(leaf, nn.Partitioned))


def put_batch(batch: Mapping[str, np.ndarray], mesh: Mesh, parts: int = 1) -> dict[str, jax.Array]:
    """A batch on the mesh, with empty rows (index -1) added until devices x parts divide it.

    Empty rows weigh nothing, so the global batch depends on neither.
    """
    missing = -len(batch["index"]) % (mesh.shape["data"] * mesh.shape["fsdp"] * parts)
    if missing:
        filler = {k: np.full_like(v[:1], -1 if k == "index" else 0) for k, v in batch.items()}
        batch = {k: np.concatenate([v, *[filler[k]] * missing]) for k, v in batch.items()}
    return jax.device_put(dict(batch), by_rows(mesh))
