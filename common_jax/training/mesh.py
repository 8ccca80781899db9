"""Devices as a mesh, and where arrays lie on it.

One axis, `data`: parameters are on every device, the rows of a batch are spread.
"""

from collections.abc import Mapping

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common_jax.errors import UserError
from common_jax.training.config import MeshConfig

DATA = "data"


def make_mesh(config: MeshConfig) -> Mesh:
    """The devices that `config` asks for.

    Raises:
      UserError: if there are fewer.
    """
    devices = jax.devices()
    count = len(devices) if config.data == -1 else config.data
    if count > len(devices):
        raise UserError(f"mesh.data={count}: only {len(devices)} devices here; -1 takes them all")
    return Mesh(np.array(devices[:count]), (DATA,))


def replicated(mesh: Mesh) -> NamedSharding:
    """On every device, whole."""
    return NamedSharding(mesh, P())


def by_rows(mesh: Mesh) -> NamedSharding:
    """The first axis spread over `data`."""
    return NamedSharding(mesh, P(DATA))


def put_batch(batch: Mapping[str, np.ndarray], mesh: Mesh) -> dict[str, jax.Array]:
    """A batch on the mesh, with empty rows (index -1) added until the devices divide it.

    Empty rows weigh nothing, so the global batch does not depend on the number of devices.
    """
    rows = len(batch["index"])
    missing = -rows % mesh.shape[DATA]
    if missing:
        filler = {k: np.full_like(v[:1], -1 if k == "index" else 0) for k, v in batch.items()}
        batch = {k: np.concatenate([v, *[filler[k]] * missing]) for k, v in batch.items()}
    return jax.device_put(dict(batch), by_rows(mesh))
