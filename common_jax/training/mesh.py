"""Devices as a mesh, and where arrays lie on it.

Layers name the axes of their parameters (`flax.linen.with_logical_partitioning`), and
`common_jax.sharding` says which mesh axis each name is spread over.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common_jax.config import MeshConfig
from common_jax.data.batches import Batch, Rows
from common_jax.errors import UserError
from common_jax.sharding import PARAMETERS, ROWS


def mesh_shape(config: MeshConfig, devices: int) -> dict[str, int]:
    """Devices along each axis, with -1 filled in.

    Raises:
      UserError: if there are fewer devices, or the rest does not come out even.
    """
    shape = dataclasses.asdict(config)
    requested = " x ".join(f"mesh.{name}={size}" for name, size in shape.items() if size != 1)
    known = math.prod(size for size in shape.values() if size != -1)
    if -1 in shape.values():
        rest = {name: devices // known for name, size in shape.items() if size == -1}
        if devices % known:
            raise UserError(f"{requested}: {devices} devices are not a multiple of {known}")
        return shape | rest
    if known > devices:
        raise UserError(f"{requested}: only {devices} devices here; -1 takes those that remain")
    return shape


def make_mesh(config: MeshConfig, devices: Sequence[Any] | None = None) -> Mesh:
    """The devices that `config` asks for.

    Args:
      devices: to take them from; None is this machine's, or all machines'.

    Raises:
      UserError: if there are fewer, or if processes cannot have as many rows each.
    """
    known = jax.devices() if devices is None else devices
    shape = mesh_shape(config, len(known))
    chosen = np.array(known[: math.prod(shape.values())])
    mesh = Mesh(chosen.reshape(tuple(shape.values())), tuple(shape))
    if devices is not None:
        return mesh
    if not _rows_split_evenly(mesh):
        sizes = " x ".join(f"mesh.{name}={size}" for name, size in shape.items())
        raise UserError(
            f"{sizes}: cannot be dealt out evenly to {jax.process_count()} processes, which have "
            f"{jax.device_count()} devices; -1 takes those that remain"
        )
    return mesh


def _rows_split_evenly(mesh: Mesh) -> bool:
    """Whether every process has as many rows of a batch as the others, and those that some share it
    shares whole."""
    held: dict[int, set[int]] = {process: set() for process in range(jax.process_count())}
    rows = batch_sharding(mesh).devices_indices_map((mesh.shape["data"] * mesh.shape["fsdp"],))
    for device, (at,) in rows.items():
        held[device.process_index].add(at.start or 0)
    shares = {frozenset(starts) for starts in held.values()}
    return len({len(share) for share in shares}) == 1 and all(
        not one & other for one in shares for other in shares if one != other
    )


def replicated(mesh: Mesh) -> NamedSharding:
    """On every device, whole."""
    return NamedSharding(mesh, P())


def batch_sharding(mesh: Mesh) -> NamedSharding:
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
        axes = [PARAMETERS.get(name) for name in leaf.names]
        named_sizes = zip(leaf.value.shape, axes, strict=True)
        spec = [
            axis if axis and not size % mesh.shape[axis] else None for size, axis in named_sizes
        ]
        return NamedSharding(mesh, P(*spec))

    return jax.tree.map(of, tree, is_leaf=lambda leaf: isinstance(leaf, nn.Partitioned))


def local_rows(mesh: Mesh, parts: int = 1) -> Rows:
    """Which rows of a batch this process reads: those that its devices hold.

    Empty rows are added until devices x parts divide the batch. They weigh nothing, so the global
    batch depends on neither, nor on the number of processes.
    """
    share = mesh.shape["data"] * mesh.shape["fsdp"] * parts

    def rows(count: int) -> np.ndarray:
        every = np.arange(-(-count // share) * share)
        held = batch_sharding(mesh).addressable_devices_indices_map(every.shape)
        return np.unique(np.concatenate([every[at] for at in held.values()]))

    return rows


def put_batch(batch: Batch, mesh: Mesh) -> dict[str, jax.Array]:
    """A batch on the mesh, of which each process gives the rows that are its own (`local_rows`)."""
    return jax.make_array_from_process_local_data(batch_sharding(mesh), dict(batch))


def to_host(array: jax.Array) -> np.ndarray:
    """An array of the mesh, in every process."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return multihost_utils.process_allgather(array, tiled=True)
