"""Evaluation: predictions on the devices, scores on the host."""

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from tqdm import tqdm

from common_jax.data.batches import Batches
from common_jax.io.progress import is_quiet
from common_jax.training.mesh import local_rows, put_batch
from common_jax.training.multihost import is_first
from common_jax.training.task import Params, Scores, Task


def evaluate(
    task: Task,
    params: Params,
    split: str,
    predict_step: Callable,
    mesh: Mesh,
) -> Scores:
    """The scores of a split, with every example once."""
    batches = task.split_batches(split)
    return task.score(split, predict(params, batches, predict_step, mesh, split))


def predict(
    params: Params,
    batches: Batches,
    predict_step: Callable,
    mesh: Mesh,
    label: str = "predict",
) -> dict[str, np.ndarray]:
    """Predictions of all batches in example order, without empty rows; equal in all processes.

    Predictions whose shape depends on the batch's are padded with zeros to the longest.
    """
    predictions: list[dict[str, Any]] = []
    epoch = batches.select_rows(local_rows(mesh)).epoch(0)
    hidden = None if is_first() and not is_quiet() else True
    bar = tqdm(epoch, desc=label, unit="batch", leave=False, disable=hidden, file=sys.stderr)
    for batch in bar:
        predictions.append(predict_step(params, put_batch(batch, mesh)))
        if len(predictions) > 1:  # fetched while the devices work on the next
            predictions[-2] = jax.device_get(predictions[-2])
    predictions = jax.device_get(predictions)
    index = np.concatenate([batch["index"] for batch in predictions])
    order = np.argsort(index, kind="stable")[np.sum(index < 0) :]
    return {
        name: _concatenate_padded([batch[name] for batch in predictions])[order]
        for name in predictions[0]
    }


def _concatenate_padded(arrays: list[np.ndarray]) -> np.ndarray:
    """Concatenates rows, widening each array with zeros to the widest."""
    shape = np.max([a.shape[1:] for a in arrays], axis=0) if arrays[0].ndim > 1 else ()
    wide = [
        np.pad(a, [(0, 0), *((0, int(n) - m) for n, m in zip(shape, a.shape[1:], strict=True))])
        for a in arrays
    ]
    return np.concatenate(wide)
