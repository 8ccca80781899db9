"""The device mesh and the shardings of arrays on it.

Layers name the axes of their parameters (`flax.linen.with_logical_partitioning`), and
`common_jax.sharding` maps each name to a mesh axis.
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
from common_jax.numerics import require_settings
from common_jax.sharding import PARAMETERS, ROWS, row_shards


def mesh_shape(config: MeshConfig, devices: int) -> dict[str, int]:
    """Devices along each axis, with -1 filled in.

    Raises:
      UserError: if there are fewer devices, or -1 leaves some of them unused.
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
    """The mesh of `config`.

    Args:
      devices: of which the first are used; None is those of all processes.

    Raises:
      UserError: if there are fewer devices, or the rows cannot be split evenly among processes; for
        a setting of jax that changes results.
    """
    require_settings()
    known = jax.devices() if devices is None else devices
    shape = mesh_shape(config, len(known))
    chosen = np.array(known[: math.prod(shape.values())])
    mesh = Mesh(chosen.reshape(tuple(shape.values())), tuple(shape))
    if devices is not None:
        return mesh
    if not _rows_split_evenly(mesh):
        sizes = " x ".join(f"mesh.{name}={size}" for name, size in shape.items())
        raise UserError(
            f"{sizes}: cannot be split evenly among {jax.process_count()} processes, which have "
            f"{jax.device_count()} devices; -1 takes those that remain"
        )
    return mesh


def _rows_split_evenly(mesh: Mesh) -> bool:
    """Whether all processes have equally many batch rows, and any two the same or disjoint ones."""
    rows_of: dict[int, set[int]] = {process: set() for process in range(jax.process_count())}
    rows = batch_sharding(mesh).devices_indices_map((row_shards(mesh),))
    for device, (row,) in rows.items():
        rows_of[device.process_index].add(row.start or 0)
    shares = {frozenset(process_rows) for process_rows in rows_of.values()}
    return len({len(share) for share in shares}) == 1 and all(
        not share & other for share in shares for other in shares if share != other
    )


def replicated(mesh: Mesh) -> NamedSharding:
    """Replicated on every device."""
    return NamedSharding(mesh, P())


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """The first axis sharded over `data` and `fsdp`."""
    return NamedSharding(mesh, P(ROWS))


def shardings(tree: Any, mesh: Mesh | AbstractMesh) -> Any:
    """The NamedSharding of each array of a tree, by the names of its axes.

    Axes without a name, and those not divisible by their mesh axis, are replicated.

    Args:
      tree: arrays or their shapes, in the boxes of `nn.with_logical_partitioning` or without; the
        result has no boxes.
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
    """Selects the rows of a batch that this process reads: those of its devices.

    Empty rows, which have no weight, are added until `row_shards` x `parts` divides the batch: the
    global batch depends neither on these numbers nor on the number of processes.
    """
    share = row_shards(mesh) * parts

    def rows(count: int) -> np.ndarray:
        every = np.arange(-(-count // share) * share)
        indices = batch_sharding(mesh).addressable_devices_indices_map(every.shape)
        return np.unique(np.concatenate([every[at] for at in indices.values()]))

    return rows


def put_batch(batch: Batch, mesh: Mesh) -> dict[str, jax.Array]:
    """Puts a batch on the mesh; each process passes its own rows (`local_rows`)."""
    return jax.make_array_from_process_local_data(batch_sharding(mesh), dict(batch))


def to_host(array: jax.Array) -> np.ndarray:
    """The complete array in host memory, in every process."""
    if array.is_fully_addressable or array.is_fully_replicated:
        return np.asarray(array)
    return multihost_utils.process_allgather(array, tiled=True)
