"""Training, from a task and a folder to a result.

One direction: batches from the epoch plan, a step, a log line, now and then a validation and a
checkpoint. The numbers of step n - 1 are fetched while step n runs. Where a run stands is its step
and the data position (epoch, batch), so that a run taken up again does bit for bit what an
undisturbed one does.
"""

import contextlib
import dataclasses
import platform
import time
from importlib import metadata
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from common_jax.data.batches import stream
from common_jax.errors import UserError
from common_jax.training.checkpoint import Checkpoints, Position, abstract_of
from common_jax.training.evaluate import evaluate
from common_jax.training.log import MetricsLog, Progress
from common_jax.training.mesh import make_mesh, put_batch
from common_jax.training.state import (
    TrainState,
    init_state,
    make_optimizer,
    make_schedule,
    named_parameters,
    parameters_sha256,
)
from common_jax.training.step import Metrics, make_predict_step, make_train_step
from common_jax.training.task import Params, Scored, Task
from common_jax.training.workdir import Workdir

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "conv-attention-jax")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run came to: result.json's content, and the score of each split."""

    result: dict[str, Any]
    scored: dict[str, Scored]


def train(task: Task, workdir: Workdir) -> Outcome:
    """Trains, or goes on training, until `train.steps`; then scores the best on dev and test.

    Raises:
      UserError: data or a folder that will not do.
    """
    config = task.config
    if config.train.best_metric not in task.metric_names:
        known = " | ".join(task.metric_names)
        raise UserError(f"train.best_metric={config.train.best_metric!r}: must be {known}")
    mesh = make_mesh(config.mesh)
    workdir.claim(config)
    finished = workdir.read_result()
    if finished and finished["steps"] >= config.train.steps:
        return Outcome(finished, {})
    task.prepare()
    workdir.write_vocabulary(task)

    optimizer = make_optimizer(config.optimizer)
    state = init_state(task, optimizer, config.train.seed, mesh)
    abstract = abstract_of(state)
    checkpoints = Checkpoints(workdir.checkpoints, config.train.best_metric)
    position: Position = (0, 0)
    start = checkpoints.latest or 0
    if start:
        restored = checkpoints.restore(start, abstract)
        state, position = restored.state, restored.position
    log = MetricsLog(workdir.metrics, start)
    progress = Progress(start, config.train.steps)
    if start:
        progress.say(f"resuming {workdir.path} at step {start}")
    run = _Run(task, mesh, checkpoints, log, progress)
    run.take_steps(state, start, position)
    del state

    best = checkpoints.best
    assert best is not None
    progress.say(f"scoring the checkpoint of step {best}, the best on dev by {run.best_metric}")
    params = checkpoints.restore(best, abstract).state.params
    scored = run.final_scores(params)
    for split, split_scored in scored.items():
        workdir.write_scored(split, split_scored)
    result = {
        "steps": checkpoints.latest,
        "best_step": best,
        "wall_seconds": round(run.wall_seconds(), 3),
        "parameters": sum(a.size for a in named_parameters(params).values()),
        "parameters_sha256": parameters_sha256(params),
        "resumed_from": log.resumed_from,
        "metrics": {split: s.metrics for split, s in scored.items()},
        "versions": versions(),
        "devices": [d.device_kind for d in mesh.devices.flat],
    }
    workdir.write_result(result)
    run.close()
    return Outcome(result, scored)


class _Run:
    """A run under way."""

    def __init__(
        self, task: Task, mesh: Mesh, checkpoints: Checkpoints, log: MetricsLog, progress: Progress
    ):
        self.task, self.mesh, self.checkpoints = task, mesh, checkpoints
        self.log, self.progress = log, progress
        self.best_metric = task.config.train.best_metric
        self._schedule = make_schedule(task.config.optimizer)
        self._dev_step = make_predict_step(task, mesh, final=False)
        self._began = time.monotonic()

    def take_steps(self, state: TrainState, step: int, position: Position) -> None:
        """Takes the steps that remain, validating and saving as it goes."""
        config = self.task.config.train
        if step >= config.steps:
            return
        optimizer = make_optimizer(self.task.config.optimizer)
        train_step = make_train_step(self.task, optimizer, config.seed, self.mesh)
        window = _Window()
        for following, batch in stream(self.task.train_batches(), position):
            state, metrics = train_step(state, put_batch(batch, self.mesh))
            window.add(metrics, self.task.size(batch))
            step += 1
            self.progress.advance()
            validate = step == config.steps or step % config.evaluate_every == 0
            save = validate or step % config.checkpoint_every == 0
            if save or step % config.log_every == 0:
                self._log_window(step, window)
                window = _Window()
            if save:
                scores = self._validate(step, state) if validate else None
                self.checkpoints.save(state, step, following, scores)
                window = _Window()  # its clock starts here
            if step == config.steps:
                break
        self.checkpoints.wait()

    def final_scores(self, params: Params) -> dict[str, Scored]:
        """The best checkpoint on dev and, once, on test."""
        predict_step = make_predict_step(self.task, self.mesh, final=True)
        return {
            split: evaluate(self.task, params, split, predict_step, self.mesh)
            for split in self.task.splits
        }

    def wall_seconds(self) -> float:
        """Time spent in this run, by the processes before this one too."""
        return self.log.wall_seconds + time.monotonic() - self._began

    def close(self) -> None:
        """Lets go of files and of the bar."""
        self.progress.close()
        self.checkpoints.close()
        self.log.close()

    def _log_window(self, step: int, window: "_Window") -> None:
        values = {
            **window.values(self.task.unit),
            "learning_rate": float(self._schedule(np.int32(step - 1))),
            "wall_seconds": round(self.wall_seconds(), 3),
        }
        self.log.write(step, values)
        shown = ("loss", f"{self.task.unit}_per_second", "learning_rate")
        self.progress.show(step, {name: values[name] for name in shown})

    def _validate(self, step: int, state: TrainState) -> dict[str, float]:
        scored = evaluate(self.task, state.params, "dev", self._dev_step, self.mesh)
        values = {"split": "dev", **scored.metrics}
        self.progress.show(step, values, always=True)
        self.log.write(step, {**values, "wall_seconds": round(self.wall_seconds(), 3)})
        return scored.metrics


class _Window:
    """The steps since the last log line."""

    def __init__(self):
        self._metrics: list[Metrics] = []
        self._real = self._positions = 0
        self._began = time.monotonic()

    def add(self, metrics: Metrics, size: tuple[int, int]) -> None:
        """Counts a step that was just dispatched, and waits for the one before it."""
        if self._metrics:
            jax.block_until_ready(self._metrics[-1])
        self._metrics.append(metrics)
        self._real += size[0]
        self._positions += size[1]

    def values(self, unit: str) -> dict[str, float]:
        """Means over the steps, throughput, and the share of positions that were padding."""
        metrics = jax.device_get(self._metrics)
        seconds = time.monotonic() - self._began
        return {
            **{name: float(np.mean([m[name] for m in metrics])) for name in metrics[0]},
            "steps_per_second": len(metrics) / seconds,
            f"{unit}_per_second": self._real / seconds,
            "padding_fraction": 1 - self._real / self._positions,
        }


def versions() -> dict[str, str]:
    """Of Python and of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
