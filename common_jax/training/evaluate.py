"""Predictions on the devices, their score on the host."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from tqdm import tqdm

from common_jax.data.batches import Batches
from common_jax.training.mesh import local_rows, put_batch
from common_jax.training.multihost import is_first
from common_jax.training.task import Params, Scores, Task


def evaluate(
    task: Task,
    params: Params,
    split: str,
    predict_step: Callable,
    mesh: Mesh,
    before_each: Callable[[], None] = lambda: None,
) -> Scores:
    """The score of a split, every example counted once, whatever the mesh.

    Args:
      before_each: called before each batch; may raise.
    """
    batches = task.split_batches(split)
    return task.score(split, predict(params, batches, predict_step, mesh, split, before_each))


def predict(
    params: Params,
    batches: Batches,
    predict_step: Callable,
    mesh: Mesh,
    label: str = "predict",
    before_each: Callable[[], None] = lambda: None,
) -> dict[str, np.ndarray]:
    """Predictions of all batches in example order, without filler rows; the same in all processes.

    Predictions whose shape grows with the batch's are padded with zeros to the longest.
    """
    found: list[dict[str, Any]] = []
    epoch, hidden = batches.select_rows(local_rows(mesh)).epoch(0), None if is_first() else True
    bar = tqdm(epoch, desc=label, unit="batch", leave=False, disable=hidden, file=sys.stderr)
    for batch in bar:
        before_each()
        found.append(predict_step(params, put_batch(batch, mesh)))
        if len(found) > 1:  # fetched while the devices work on the next
            found[-2] = jax.device_get(found[-2])
    found = jax.device_get(found)
    index = np.concatenate([f["index"] for f in found])
    order = np.argsort(index, kind="stable")[np.sum(index < 0) :]
    return {name: _stack([f[name] for f in found])[order] for name in found[0]}


def ensemble_mean(predictions: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """What several models together predict for the same examples (`Task.evaluation_set`)."""
    return {name: np.mean([p[name] for p in predictions], axis=0) for name in predictions[0]}


def _stack(arrays: list[np.ndarray]) -> np.ndarray:
    """Concatenates rows, widening each array with zeros to the widest."""
    shape = np.max([a.shape[1:] for a in arrays], axis=0) if arrays[0].ndim > 1 else ()
    wide = [
        np.pad(a, [(0, 0), *((0, int(n) - m) for n, m in zip(shape, a.shape[1:], strict=True))])
        for a in arrays
    ]
    return np.concatenate(wide)
