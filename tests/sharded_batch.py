"""Batches made by hand, placed on a mesh as those of a corpus are."""

import numpy as np

from common_jax.training.mesh import local_rows, put_batch


def placed(batch, mesh, parts=1):
    """All rows of a batch, and the empty ones that the mesh and the parts want."""
    count = len(batch["index"])
    missing = len(local_rows(mesh, parts)(count)) - count
    empty = {k: np.full_like(v[:1], -1 if k == "index" else 0) for k, v in batch.items()}
    return put_batch(
        {k: np.concatenate([v, *[empty[k]] * missing]) for k, v in batch.items()}, mesh
    )
