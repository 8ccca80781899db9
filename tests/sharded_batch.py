"""Puts a hand-made batch on a mesh."""

import numpy as np

from common_jax.training.mesh import local_rows, put_batch


def placed(batch, mesh, parts=1):
    """The batch on the mesh, with the empty rows that fill up the devices and parts."""
    count = len(batch["index"])
    missing = len(local_rows(mesh, parts)(count)) - count
    empty = {k: np.full_like(v[:1], -1 if k == "index" else 0) for k, v in batch.items()}
    return put_batch(
        {k: np.concatenate([v, *[empty[k]] * missing]) for k, v in batch.items()}, mesh
    )
