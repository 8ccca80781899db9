"""Sweeps: a config with all combinations of some fields' values, and several seeds."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from common_jax.compare import evaluation_class
from common_jax.deploy.configs import OpenedSources, task_of
from common_jax.document import Cell, Chart, Element, Report, Section, Table
from common_jax.errors import UserError, error_context
from common_jax.io.atomic import writing
from common_jax.io.paths import AnyPath, as_path
from common_jax.training.config import task_class
from common_jax.training.identity import SEED
from launch.api.comparison import write_page
from launch.api.configs import Config, Overrides, checked
from launch.api.live import LivePage
from launch.api.messages import messages
from launch.api.runs import Folder, Run
from launch.pages import charts
from launch.pages.html import to_fragment
from launch.trials.corpora import with_inferred
from launch.trials.executor import Executor
from launch.trials.figure import caption, sweep_charts
from launch.trials.status import TrialStatus, find, result_rows, write_results
from launch.trials.train import train as train_trials
from launch.trials.trials import Axis, Trial, grid_trials, require_own_folders

Grid = Mapping[str, Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """A sweep, planned or trained: in a notebook, its charts and the table of its trials.

    Attributes:
      trials: of each combination of values and each seed.
      folder: with the trials' runs, results.csv, figure.png and report.html.
      metric: of the charts, SPLIT.NAME.
    """

    trials: Sequence[Trial] = dataclasses.field(repr=False)
    folder: AnyPath
    metric: str

    @property
    def statuses(self) -> list[TrialStatus]:
        """The status of each trial, read from its folder."""
        return [find(trial) for trial in self.trials]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of results.csv: values, seed, state, metrics."""
        return result_rows(self.trials)

    @property
    def unfinished(self) -> list[Trial]:
        """The trials that have neither finished nor been stopped."""
        return [trial for trial in self.trials if find(trial).state not in ("finished", "stopped")]

    @property
    def runs(self) -> dict[str, Run]:
        """The finished runs by the names of their trials."""
        finished = [trial for trial in self.trials if find(trial).state == "finished"]
        return {trial.name: Run(trial.workdir.path) for trial in finished}

    @property
    def varies(self) -> bool:
        """Whether anything but the seed varies."""
        return [*self.trials[0].values] != [SEED]

    @property
    def charts(self) -> list[Chart]:
        """The metric by each field, with mean and interval over the seeds; none if only the seed
        varies, or no trial has finished."""
        return sweep_charts(self.trials, self.statuses, self.metric) if self.varies else []

    @property
    def caption(self) -> str:
        """Explains the charts' marks, followed by the paper's findings."""
        task = task_class(self.trials[0].config.task)
        return caption(self.charts, evaluation_class(task).findings)

    @property
    def _figure(self) -> list[Element]:
        charts = self.charts
        return [*charts, self.caption] if charts else []

    def train(self, executor: Executor | None = None) -> None:
        """Trains the unfinished trials, each as a process, and writes results.csv. A trial that
        fails is recorded with its error, and the others continue.

        Raises:
          Interrupted: upon a request to stop; the same call resumes.
        """
        results = self.folder / "results.csv"
        with messages():
            train_trials(self.trials, results, executor or Executor(), self.folder)
        write_results(results, self.trials)

    def write_figure(self) -> None:
        """Writes figure.png and figure.svg; raises ValueError without charts."""
        with writing(self.folder):
            charts.save(self.charts, self.folder / "figure", self.caption)

    def write_page(self) -> AnyPath:
        """Writes report.html: each trial's state and curves, settings, scores and comparisons, and
        the figure; returns its path."""
        file = self.folder / "report.html"
        with messages():
            page = LivePage([self.folder]).report()
            figure = Section(self.metric, self._figure)
            head, *sections = page.sections
            shown = [section for section in (head, figure, *sections) if section.elements]
            write_page(file, Report(f"Sweep {self.folder.absolute().name}: {page.title}", shown))
        return file

    def _repr_html_(self) -> str:
        empty = (None, "")
        rows = [{n: v for n, v in row.items() if v not in empty} for row in self.rows]
        head = [*dict.fromkeys(name for row in rows for name in row)]
        as_text = {*self.trials[0].values}  # 0.002 has no two decimals
        cells: list[list[Cell]] = [
            [str(row[n]) if n in as_text and n in row else row.get(n) for n in head] for row in rows
        ]
        return to_fragment([Section(f"Sweep {self.folder}", [*self._figure, Table(head, cells)])])


def sweep(
    config: str | Config,
    grid: Grid | Sequence[Axis] = (),
    overrides: Overrides = (),
    *,
    zipped: Grid | None = None,
    systems: Sequence[str] = (),
    seeds: int = 1,
    out: Folder,
    metric: str | None = None,
    executor: Executor | None = None,
    trains: bool = True,
) -> Sweep:
    """Trains a config with all combinations of some fields' values, and with several seeds.

    The same call resumes a sweep; with more values or seeds it trains only the new ones.

    Args:
      config: a file, the name of an installed one, or a config.
      grid: the values of each field, {"model.token_window": [3, 11]}, combined with those of all
        others.
      overrides: fields of all trials, as of `launch.api.config`.
      zipped: fields that vary jointly, with equally many values.
      systems: of the config file, an axis of the sweep.
      seeds: number of seeds of each combination.
      out: folder of the sweep.
      metric: of the charts, SPLIT.NAME; None is dev's `train.best_metric`.
      executor: this machine or Ray, and the number of concurrent trials; None is one at a time.
      trains: whether the trials are trained, or only checked.

    Raises:
      UserError: for an invalid field or value, or a folder with other trials.
      Interrupted: upon a request to stop; the same call resumes.
    """
    folder = as_path(out)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out: {folder}: not a folder")

    # The trials: the grid's axes, the jointly varied one, systems and seeds.
    chosen = checked(config, overrides)
    axes = (
        [_axis({key: values}) for key, values in grid.items()]
        if isinstance(grid, Mapping)
        else [*grid]
    )
    axes += [_axis(zipped)] if zipped else []

    trials = grid_trials(
        chosen.source, chosen.overrides, axes, seeds, folder, systems, chosen.models
    )
    swept = [field for axis in axes for field in axis.fields]
    trials = with_inferred(trials, chosen.models, swept)

    # Errors come before the first training.
    with error_context("--out"):
        require_own_folders(trials)
    _require_metric(metric, trials, chosen.models)
    default = f"dev.{trials[0].config.train.best_metric}"
    planned = Sweep(trials, folder, metric or default)
    if trains:
        planned.train(executor)
        if planned.charts:
            planned.write_figure()
        planned.write_page()
    return planned


def plan_sweep(*args: Any, **options: Any) -> Sweep:
    """As `sweep`, without training."""
    return sweep(*args, **options, trains=False)


def _axis(fields: Grid) -> Axis:
    """The axis of a field, or of fields that vary jointly."""
    counts = {key: len(values) for key, values in fields.items()}
    if len({*counts.values()}) > 1 or not all(counts.values()):
        raise UserError(f"{' '.join(counts)}: equally many values, at least one, not {counts}")
    rows = zip(*fields.values(), strict=True)
    return Axis(tuple(fields), tuple(tuple(map(str, row)) for row in rows))


def _require_metric(metric: str | None, trials: Sequence[Trial], models: OpenedSources) -> None:
    """Raises UserError if the metric is no SPLIT.NAME of the trials' task, or its checkpoints would
    be chosen by none."""
    task = task_of(trials[0].config, models)
    splits = task.splits
    best = task.config.train.best_metric
    if best not in task.metric_names:
        raise UserError(f"train.best_metric={best!r}: must be {' | '.join(task.metric_names)}")
    split, _, name = (metric or "").partition(".")
    if metric is not None and (split not in splits or not name):
        raise UserError(f"--metric {metric}: write SPLIT.NAME, with {' | '.join(splits)}")
    if split == "dev" and name not in task.metric_names:
        raise UserError(f"--metric {metric}: dev has {' | '.join(task.metric_names)}")
