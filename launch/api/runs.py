"""Runs: trained, or read from their folders."""

import functools
import os
from collections.abc import Mapping
from typing import Any

from common_jax.compare import Run as ComparedRun
from common_jax.compare import read_runs
from common_jax.deploy.parameters import starting_parameters
from common_jax.document import Section
from common_jax.io.paths import AnyPath, as_path
from common_jax.training.config import default_workdir
from common_jax.training.loop import train as take_steps
from common_jax.training.multihost import broadcast_from_first
from common_jax.training.preparation import prepare_on_all
from common_jax.training.run_writer import RunWriter
from common_jax.training.scored_run import ScoredRun
from common_jax.training.task import Scores, Task
from launch.api.configs import Config, Overrides, checked
from launch.api.messages import messages
from launch.cli import command_line
from launch.measure.step_meter import StepMeter, StepTracer
from launch.pages.html import to_fragment
from launch.pages.runs import bad_steps, learning_curves, scores
from launch.trials.reuse import require_result_of

Folder = str | os.PathLike[str]


class Run:
    """A run: in a notebook, its scores with intervals and its curves.

    It is also a path, that of its folder: `common_jax.deploy.load(run)`.

    Attributes:
      folder: reads its files.
      task: of its config.
      scored: scores by split, if they were computed at the end of this training.
    """

    def __init__(
        self, folder: Folder, task: Task | None = None, scored: Mapping[str, Scores] | None = None
    ):
        """Reads a run.

        Args:
          task: that of the config, if it has been made.

        Raises:
          UserError: for a folder that is not a run's.
        """
        self.folder = ScoredRun(as_path(folder))
        self.scored = scored or {}
        self.task = self._compared.task if task is None else task

    @functools.cached_property
    def _compared(self) -> ComparedRun:
        (run,) = read_runs([self.folder.path])
        return run

    @property
    def path(self) -> AnyPath:
        """Its folder."""
        return self.folder.path

    @property
    def config(self) -> Any:
        """The dataclass of its config."""
        return self.task.config

    @property
    def result(self) -> Mapping[str, Any]:
        """result.json; empty until the run is finished."""
        return self.folder.result() or {}

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """The final scores by split and name; empty until the run is finished."""
        return dict(self.result.get("metrics", {}))

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl: a log interval or a validation each."""
        return self.folder.metrics()

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __repr__(self) -> str:
        state = [
            f"{split}: " + " ".join(f"{name} {value:.2f}" for name, value in values.items())
            for split, values in self.metrics.items()
        ]
        step = max((line["step"] for line in self.lines), default=0)
        return f"Run({str(self.path)!r})  {'; '.join(state) or f'not finished, at step {step}'}"

    def _repr_html_(self) -> str:
        run = ComparedRun(self._compared.label, self.folder)
        return to_fragment(
            [
                Section(f"Run {self.path}", [*scores([run]), *bad_steps([run])]),
                Section("Learning", learning_curves([run])),
            ]
        )


def train(
    config: str | Config,
    overrides: Overrides = (),
    *,
    workdir: Folder | None = None,
    workers: int | None = None,
    new_schedule: bool = False,
    command: str = "",
    profile: tuple[int, int] | None = None,
) -> Run:
    """Trains a config, or resumes an interrupted run, and scores its best checkpoint.

    Args:
      config: a file, the name of an installed one, or a config.
      overrides: as of `launch.api.config`.
      workdir: folder of the run; None is runs/<family>/<config>.
      workers: threads that prepare the corpus; None is the number of cores.
      new_schedule: whether a resumed run has the learning rate schedule of the config.
      command: for result.json; "" is a command line with the same effect.
      profile: the first and the last step to trace, into the run's folder; SIGUSR1 traces the next
        three.

    Raises:
      UserError: for invalid data, an unusable folder, a finished run with other data or settings,
        or a profile of steps that there are not.
      Interrupted: by SIGINT or SIGTERM in the main thread; the last step is saved, and the same
        call resumes.
    """
    # The config, the folder, and the command line that they stand for.
    chosen = checked(config, overrides)
    path = default_workdir(chosen.file) if workdir is None else as_path(workdir)
    argv = ["--config", chosen.file, *chosen.overrides, "--workdir", str(path)]
    writer = RunWriter(path)

    with messages():
        task = chosen.with_inferred([writer]).make_task()
        broadcast_from_first(lambda: require_result_of(writer, task, new_schedule=new_schedule))
        with StepTracer(task, profile) as tracer:
            if workers is not None:
                prepare_on_all(task, workers)
            outcome = take_steps(
                task,
                writer,
                command or command_line("train", argv),
                new_schedule=new_schedule,
                starting_parameters=functools.partial(
                    starting_parameters, open_source=chosen.models.open
                ),
                timer=StepMeter(task, tracer),
            )
    return Run(path, task, outcome.scored)
