"""Compares stored weights with float32 on a split: scores, and seconds of an exported program."""

import dataclasses
import functools
import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

from common_jax.config import MeshConfig
from common_jax.data.batches import Batch
from common_jax.errors import UserError
from common_jax.export.format import Manifest
from common_jax.export.weights import restored, restoring
from common_jax.predictor import format_options
from common_jax.training.evaluate import evaluate
from common_jax.training.mesh import make_mesh
from common_jax.training.run_folder import RunFolder
from common_jax.training.step import make_predict_step
from common_jax.training.task import Params, Task

EXAMPLES = 256  # of a split, whose computation is timed
ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Scores and seconds by dtype of the weights: "float32" and that of the export.

    Attributes:
      split: of the run's data.
      scores: the metrics of the split.
      seconds: of the compiled program for `examples` examples of the split, the median of
        `ROUNDS`; empty for a format without programs.
      examples: their number.
      program: its static arguments; "" if it has none.
      device: that it runs on.
    """

    split: str
    scores: Mapping[str, Mapping[str, float]]
    seconds: Mapping[str, float]
    examples: int
    program: str
    device: str


def compare(
    run: RunFolder, task: Task, params: Params, weights: Params, manifest: Manifest, split: str
) -> Comparison:
    """Evaluates and times both weights.

    Args:
      run: of the task.
      task: with its vocabulary; its corpus is prepared.
      params, weights: in float32, and as the export of `manifest` stores them.
      split: one of `Task.splits`.

    Raises:
      UserError: if the corpus cannot be prepared, or is not the one of the run's training.
    """
    task.prepare()
    run.require_data(task, [split])
    mesh = make_mesh(MeshConfig(data=1))
    step = make_predict_step(task, mesh, final=True)
    sides = {"float32": params, str(manifest.dtype): weights}
    scores = {
        dtype: evaluate(task, restored(values), split, step, mesh).metrics
        for dtype, values in sides.items()
    }
    device = jax.devices()[0].device_kind
    if not manifest.programs:
        return Comparison(split, scores, {}, 0, "", device)
    program = next(iter(manifest.programs.values()))
    serve = jax.jit(restoring(functools.partial(task.serve, **program)))
    calls = {dtype: functools.partial(serve, values) for dtype, values in sides.items()}
    batches, examples = _batches(task, split)
    seconds = _medians(calls, batches)
    return Comparison(split, scores, seconds, examples, format_options(program), device)


def require_split(task: Task, split: str) -> None:
    """Raises UserError for a split that the task does not have."""
    if split not in task.splits:
        raise UserError(f"--evaluate {split}: must be {' | '.join(task.splits)}")


def _batches(task: Task, split: str) -> tuple[list[Batch], int]:
    """The first batches of a split with at least `EXAMPLES` examples, and the examples' number."""
    batches, examples = list[Batch](), 0
    for batch in task.split_batches(split).epoch(0):
        batches.append({name: batch[name] for name in task.inputs})
        examples += int((batch["index"] >= 0).sum())
        if examples >= EXAMPLES:
            break
    return batches, examples


def _medians(calls: Mapping[str, Callable[[Batch], Any]], batches: list[Batch]) -> dict[str, float]:
    """Median seconds of each call for all batches, without a first round, which compiles."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _, (name, call) in itertools.product(range(1 + ROUNDS), calls.items()):
        start = time.perf_counter()
        for batch in batches:
            jax.block_until_ready(call(batch))
        samples[name].append(time.perf_counter() - start)
    return {name: statistics.median(values[1:]) for name, values in samples.items()}
