"""The training loop: from a task and a workdir to a result.

The metrics of step n - 1 are fetched while step n runs. The state of a run includes its step and
data position (epoch, batch), so that a resumed run equals an uninterrupted one bit for bit.

Several processes (`common_jax.training.multihost`) run the same loop, each with its rows of every
batch; the first writes all files but checkpoints.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh

from common_jax.data.batches import Batch, Batches, group_steps, stream
from common_jax.errors import Interrupted, UserError
from common_jax.fields import flat, require, to_mapping
from common_jax.io.parameters import named_parameters, parameters_sha256
from common_jax.numerics import recorded_variables
from common_jax.training.best import best_step
from common_jax.training.checkpoint import Checkpoints, Position, Restored
from common_jax.training.evaluate import evaluate
from common_jax.training.log import MetricsLog, Progress, require_trackers
from common_jax.training.mesh import local_rows, make_mesh, put_batch, to_host
from common_jax.training.multihost import broadcast_from_first, gather_from_all
from common_jax.training.preemption import PreemptionHandler
from common_jax.training.preparation import (
    prepare_on_all,
    require_learning,
    require_metric,
    require_same_config,
)
from common_jax.training.run_writer import RunWriter
from common_jax.training.state import InitialState, TrainState, run_key
from common_jax.training.step import Metrics, make_predict_step, make_train_step
from common_jax.training.step_metrics import MetricsWindow, StallTimer
from common_jax.training.task import Params, Scores, Task
from common_jax.versions import commit, versions

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class RunResult:
    """The content of result.json, and the scores of each split."""

    result: dict[str, Any]
    scored: dict[str, Scores]


StartingParameters = Callable[[Task, Params, Mesh], Params]


def train(
    task: Task,
    workdir: RunWriter,
    command: str = "",
    *,
    new_schedule: bool = False,
    starting_parameters: StartingParameters | None = None,
    timer: StallTimer | None = None,
) -> RunResult:
    """Trains, or resumes training, until `train.steps`; then scores the best on dev and test.

    Args:
      command: the command line, for result.json.
      new_schedule: whether a resumed run has the cooldown of `task.config`, not the recorded one.
      starting_parameters: reads the parameters of `train.init_from`, given the fresh ones; needed
        if a new run has it (`common_jax.deploy.parameters.starting_parameters`).
      timer: measures the steps (`launch.measure.step_meter`).

    Raises:
      UserError: for invalid data, an unusable folder, a tracker that is not installed, or a loss
        that stays not finite; in all processes of a run, if possible.
      Interrupted: by SIGTERM or SIGINT; the last step is saved.
    """
    require_same_config(task.config)
    require_metric(task)
    broadcast_from_first(lambda: require_trackers(task.config.train.tracker_names))
    mesh = make_mesh(task.config.mesh)
    try:
        # the folder is claimed, so that no other command trains in it
        config = workdir.claim(task.config, new_schedule=new_schedule)
        task.config = config
        if finished := broadcast_from_first(lambda: workdir.finished(config)):
            return RunResult(finished, {})

        # the run, whose end or error is recorded in the folder
        with workdir.recording_end():
            prepare_on_all(task)
            data = workdir.adopt_data(task)
            with PreemptionHandler() as preemption:
                run = _Run(task, workdir, mesh, preemption, data)
                with contextlib.closing(run):
                    run.begin(starting_parameters, timer or StallTimer())
                    preemption.raise_if_requested()
                    return run.finish(run.take_steps(), command)
    finally:
        workdir.release()


class _Run:
    """A run in progress.

    Attributes:
      step, position, state: of the last step taken; the position is (epoch, batch) of the next.
    """

    step: int
    position: Position
    state: TrainState
    log: MetricsLog
    progress: Progress

    def __init__(
        self, task: Task, workdir: RunWriter, mesh: Mesh, preemption: PreemptionHandler, data: str
    ):
        """
        Args:
          data: as `Restored.data`.
        """
        config = task.config.train
        self.task = task
        self.config = config
        self.workdir = workdir
        self.mesh = mesh
        self.preemption = preemption
        self.data = data

        # the initial state, and where states are saved
        self.initial = InitialState(task, mesh)
        self.checkpoints = Checkpoints(workdir, config.best_metric, config.keep_checkpoints, data)

        # the functions that evaluate during training and at its end
        self._dev_step = make_predict_step(task, mesh, final=False)
        self._final_step = self._dev_step  # if the two are equal, one function is compiled once
        if task.final_search:
            self._final_step = make_predict_step(task, mesh, final=True)

        # the files to close, and when it began
        self._files = contextlib.ExitStack()
        self._began = time.monotonic()

    def begin(self, starting_parameters: StartingParameters | None, timer: StallTimer) -> None:
        """Restores the newest checkpoint, or makes the state of a new run; opens the log.

        Raises:
          UserError: for a checkpoint of other data, or parameters that do not fit.
        """
        restored = self.checkpoints.restore_newest(self.initial.abstract)
        if restored is None:
            self._start(starting_parameters)
        else:
            self._resume(restored)
        values = flat(to_mapping(self.task.config))
        self.log = MetricsLog(self.workdir, self.step, self.config.tracker_names, values)
        self._files.callback(self.log.close)
        self._timer = timer
        self._logged_at = self.log.wall_seconds
        self.progress = Progress(self.step, self.config.steps)
        self._files.callback(self.progress.close)
        if restored is not None:
            self.progress.say(f"resuming {self.workdir.path} at step {self.step}")
        if not self._finished() and (message := require_learning(self.task.config, self.step)):
            self.progress.say(message)

    def _start(self, starting_parameters: StartingParameters | None) -> None:
        """Makes the initial state, with the parameters of `train.init_from`."""
        self.step = 0
        self.position = (0, 0)
        self.state = self.initial.make()
        if not self.config.init_from:
            return
        if starting_parameters is None:
            raise ValueError("train.init_from: train needs `starting_parameters`")
        params = starting_parameters(self.task, self.state.params, self.mesh)
        ema = None if self.state.ema is None else jax.tree.map(lambda a: a.copy(), params)
        self.state = dataclasses.replace(self.state, params=params, ema=ema)

    def _resume(self, restored: Restored) -> None:
        """Takes over a checkpoint's state; raises UserError if it is of other data, or of a later
        step than the last."""
        if restored.data not in ("", self.data):
            raise UserError(
                f"{self.workdir.checkpoints / str(restored.step)}: trained on other data than this "
                "run; restore its own checkpoints, or choose another --workdir"
            )
        steps = self.config.steps
        beyond = f"{self.workdir.path}: is at step {restored.step}, beyond train.steps={steps}"
        require(restored.step <= steps, f"{beyond}: set more, or choose another --workdir")
        self.step = restored.step
        self.position = restored.position
        self.state = restored.state

    def take_steps(self) -> bool:
        """Takes the remaining steps, validating and saving; returns whether it stopped early.

        Raises:
          UserError: after `train.max_bad_steps` in a row.
          Interrupted: after saving the last step taken.
        """
        config = self.config
        validated = any(step == self.step for step, _ in self.log.validations)
        if self.step and self._validates() and not validated:
            self._validate_and_save()  # the run ended before this validation
        if self._finished():
            return self._stops_early()
        train_step = make_train_step(self.task, self.mesh, self.initial.abstract)
        train_step = self._timer.measured(train_step, self.mesh, self.workdir, self.step)
        batches = self.task.train_batches().select_rows(local_rows(self.mesh, config.accumulate))
        key = run_key(config.seed, self.mesh)
        window = MetricsWindow()
        self.progress.say("compiling the training step (about a minute)")
        for following, group in self._timer.over("data_seconds", self._calls(batches)):
            # the step, while the metrics of the last call are checked
            self.state, metrics = train_step(self.state, group, key)
            self._require_finite(window.latest, batches)
            window.add(metrics)
            self.step += len(group)
            self.position = following
            self.progress.advance(len(group))

            # what is due after it
            validate = self._validates()
            save = validate or self._due(config.checkpoint_every)
            signal_number = self.preemption.poll()
            if save or self._due(config.log_every) or signal_number is not None:
                self._log_window(window)
                self._require_finite(window.latest, batches)
                window.reset()
            if signal_number is not None:
                self._save_and_leave(signal_number)
            if validate:
                self._validate_and_save()
            elif save:
                self._save()
            if save:
                window.reset()  # without the time of the save
            if self._finished():
                break
        self.checkpoints.wait()
        return self._stops_early()

    def _calls(self, batches: Batches) -> Iterator[tuple[Position, tuple[Batch, ...]]]:
        """The batches of each call of the training step on the devices, with the position after."""
        batch_stream = stream(batches, self.position)
        for following, group in group_steps(batch_stream, self.step, self.config):
            yield following, tuple(put_batch(batch, self.mesh) for batch in group)

    def finish(self, stopped_early: bool, command: str) -> RunResult:
        """Scores the best checkpoint on dev and, once, on test, and writes the result."""
        # the best checkpoint replaces the last state, whose memory is freed
        del self.state
        best = self.checkpoints.restore_best(self.initial.abstract)
        dev = f"dev {self.config.best_metric}"
        if stopped_early:
            self.progress.say(
                f"stopped early at step {self.step}: no better {dev} since step {best.step}"
            )
        search = f", by {name}" if (name := self.task.search(final=True)) else ""
        self.progress.say(f"scoring the checkpoint of step {best.step}, of the best {dev}{search}")

        # all splits are scored by the final search, if the task has one
        params = best.state.inference_params
        scored = {}
        for split in self.task.splits:
            scored[split] = self._evaluated(params, split, self._final_step)
            scored[split].notes["step"] = best.step
            self.workdir.write_scores(split, scored[split])

        # the record of the run, its scores and what it ran on
        result = {
            "command": command,
            "steps": self.checkpoints.latest,
            "best_step": best.step,
            "stopped_early": stopped_early,
            "wall_seconds": round(self.wall_seconds(), 3),
            "parameters": sum(a.size for a in named_parameters(params).values()),
            "parameters_sha256": parameters_sha256(params, to_host),
            "bad_steps": self.log.bad_steps,
            "resumed_from": self.log.resumed_from,
            "metrics": {split: s.metrics for split, s in scored.items()},
            "versions": versions(),
            "environment": recorded_variables(),
            "commit": commit(),
            "devices": [d.device_kind for d in self.mesh.devices.flat],
            **({"warnings": [*warnings]} if (warnings := self.task.warnings) else {}),
        }
        self.workdir.write_result(result)
        self.log.write_final(self.step, result["metrics"])
        return RunResult(result, scored)

    def wall_seconds(self) -> float:
        """Training time of this run, including earlier processes."""
        return self.log.wall_seconds + time.monotonic() - self._began

    def close(self) -> None:
        """Closes files and the bar."""
        with contextlib.suppress(UserError):  # would hide the error that ended the run
            self.checkpoints.close()
        self._files.close()

    def _due(self, every: int) -> bool:
        return self.step % every == 0

    def _validates(self) -> bool:
        return self.step == self.config.steps or self._due(self.config.evaluate_every)

    def _finished(self) -> bool:
        return self.step >= self.config.steps or self._stops_early()

    def _stops_early(self) -> bool:
        """Whether the last `train.patience` regular validations did not improve on the best; one at
        the end of a shorter run that was continued does not count."""
        best = best_step(self.log.validations, self.config.best_metric)
        if best is None or not self.config.patience:
            return False
        steps = [step for step, _ in self.log.validations if step > best]
        later = [step for step in steps if step % self.config.evaluate_every == 0]
        return len(later) >= self.config.patience

    def _evaluated(self, params: Params, split: str, predict_step: Callable) -> Scores:
        """Evaluates; raises Interrupted upon a request, also an earlier one, and logs its time."""

        def predict(params: Params, batch: Batch) -> dict[str, Any]:
            self.preemption.raise_if_requested()
            return predict_step(params, batch)

        try:
            with self.preemption.interruptible():
                return evaluate(self.task, params, split, predict, self.mesh)
        except Interrupted:
            self.log.write(self.step, {"wall_seconds": round(self.wall_seconds(), 3)})
            raise

    def _log_window(self, window: "MetricsWindow") -> None:
        """Logs a line."""
        values: dict[str, Any] = window.values(self.task.unit)
        values |= self._timer.reset(seconds=window.seconds)
        wall_seconds = self.wall_seconds()
        values["goodput"] = values["step_seconds"] / (wall_seconds - self._logged_at)
        values["wall_seconds"] = round(wall_seconds, 3)
        self._logged_at = wall_seconds
        self.log.write(self.step, values)
        names = ("loss", f"{self.task.unit}_per_second", "learning_rate", "bad_steps")
        shown = {name: values[name] for name in names if name in values}
        first = 0 < (values.get("bad_steps") or 0) == self.log.bad_steps
        self.progress.show(self.step, shown, always=first)

    def _validate_and_save(self) -> None:
        self._save()  # asynchronously, during the validation
        try:
            with self._timer.at("validating_seconds"):
                params = self.state.inference_params
                scored = self._evaluated(params, "dev", self._dev_step)
        except Interrupted as interruption:
            self._save_and_leave(interruption.signal)
        self._save(scored.metrics)
        values = {"split": "dev", **scored.metrics}
        shown = {**values, "split": f"dev {self.task.search(final=False)}".rstrip()}
        self.progress.show(self.step, shown, always=True)
        self.log.write(self.step, {**values, "wall_seconds": round(self.wall_seconds(), 3)})
        self.log.flush()

    def _save(self, metrics: dict[str, float] | None = None) -> None:
        with self._timer.at("saving_seconds"):
            self.log.flush()  # a resumed run continues the log of its checkpoint
            self.checkpoints.save(self.state, self.step, self.position, metrics)

    def _save_and_leave(self, signal_number: int) -> None:
        self._save()
        self.checkpoints.wait()
        gather_from_all(lambda: None)  # the first process may still be removing old checkpoints
        raise Interrupted(
            signal_number,
            f"stopped at step {self.step}, which is saved in {self.workdir.path}; "
            "the same command resumes from there",
        )

    def _require_finite(self, metrics: Metrics | None, batches: Batches) -> None:
        """Raises UserError if too many steps in a row, up to `metrics`, were not finite."""
        bad = 0 if metrics is None else int(np.max(metrics["bad_steps"]))
        if bad < self.config.max_bad_steps:
            return
        self.checkpoints.wait()
        latest = self.checkpoints.latest
        saved = "nothing is saved yet" if latest is None else f"the last step saved is {latest}"
        examples = batches.examples(divmod(self.step - 1, len(batches)))
        raise UserError(
            f"step {self.step}: the loss or its gradient was not finite {bad} times in a row "
            f"(train.max_bad_steps); {saved}; a smaller optimizer.learning_rate may help; the "
            f"batch had examples {', '.join(map(str, examples))} of train"
        )
