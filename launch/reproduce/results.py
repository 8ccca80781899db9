"""The results of a table's trials: metrics of its rows, speeds, and the rows as CSV."""

import collections
import dataclasses
import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from common_jax.compare import Evaluation, Run, evaluation_class
from common_jax.training.config import task_class
from common_jax.training.identity import SEED
from common_jax.training.run_folder import RunFolder
from launch.reproduce.evidence import Trials
from launch.reproduce.table_file import HOURS, MEASURED, SPEEDS, Scale, TableSpec
from launch.reproduce.trials import ROW
from launch.seeds import interval_of_means
from launch.trials.status import TrialStatus, csv_text, find
from launch.trials.trials import Trial

HEAD = ("row", "metric", "published", "mean", "low", "high", "seeds", "parameters", "speed")
Speeds = Mapping[str, Mapping[str, Sequence[float]]]


@dataclasses.dataclass(frozen=True)
class TableResults:
    """The results of a table's trials at a scale.

    Attributes:
      speeds: by row and name of `SPEEDS`, batches a second in each round; the rows of a round were
        measured in turn.
      notes: on trials that were not used.
      machine: that of the speeds.
      busy: why the speeds are not those of a quiet machine; "" if they are.
    """

    spec: TableSpec
    scale: Scale
    trials: Sequence[Trial]
    statuses: Sequence[TrialStatus]
    speeds: Speeds
    notes: Sequence[str]
    machine: str = ""
    busy: str = ""

    @property
    def device_kind(self) -> str:
        """The kind of device on which speeds were measured: "CPU", "GPU" or "TPU"."""
        name = self.machine.partition(" x ")[2]
        return next(
            (platform for platform in ("CPU", "TPU") if name.upper().startswith(platform)), "GPU"
        )

    @property
    def devices(self) -> list[str]:
        """The kinds of device on which the trials ran, or the speeds were measured."""
        if self.spec.kind == "speed":
            return [self.machine.partition(" x ")[2].partition(",")[0]] if self.machine else []
        results = [result for trial in self.trials if (result := trial.workdir.result())]
        return [*dict.fromkeys(name.upper() for result in results for name in result["devices"])]

    def values(self, row: str, metric: str) -> dict[int, float]:
        """A metric of a row's finished trials by seed; a speed by the number of its round."""
        if metric in SPEEDS:
            return dict(enumerate(self.speeds.get(row, {}).get(metric, ())))
        if (row, metric) not in self._values:
            self._values[row, metric] = self._read_values(row, metric)
        return dict(self._values[row, metric])

    def _read_values(self, row: str, metric: str) -> dict[int, float]:
        """As `values`, from the files of the trials."""
        values = {t.values[SEED]: self._value(t, s, metric) for t, s in self._finished(row)}
        values |= {n: ensemble.mean(metric) for n, ensemble in enumerate(self.ensembles(row))}
        return {seed: value for seed, value in values.items() if value is not None}

    def unreached(self, row: str) -> dict[int, float]:
        """The hours, until the last evaluation, of finished trials that never reach the target."""
        finished = {trial.values[SEED]: trial.workdir for trial, _ in self._finished(row)}
        missed = finished.keys() - self.values(row, HOURS).keys()
        return {seed: self._validations(finished[seed])[-1][0] for seed in sorted(missed)}

    def parameters(self, row: str) -> int | None:
        """The number of parameters of a row's model, or of all of an ensemble's."""
        if ensemble := self.scale.row(row).ensemble:
            single = self.parameters(ensemble.of)
            return single and single * ensemble.runs
        return next((s.parameters for _, s in self.of(row) if s.parameters), None)

    def speed(self, row: str, name: str) -> float | None:
        """A speed of `SPEEDS` relative to the first row, the geometric mean of rounds."""
        pair = self.scale.systems[0].name, row
        if not {*pair} <= self.speeds.keys():
            return None
        first, rounds = (self.speeds[row][name] for row in pair)
        return statistics.geometric_mean(a / b for a, b in zip(rounds, first, strict=True))

    @property
    def pairs(self) -> list[tuple[Trial, TrialStatus]]:
        """The trials with their status."""
        return [*zip(self.trials, self.statuses, strict=True)]

    def of(self, row: str) -> list[tuple[Trial, TrialStatus]]:
        """A row's trials."""
        return [pair for pair in self.pairs if pair[0].values[ROW] == row]

    def _finished(self, row: str) -> list[tuple[Trial, TrialStatus]]:
        """A row's finished trials."""
        return [pair for pair in self.of(row) if pair[1].state == "finished"]

    def ensembles(self, row: str) -> Sequence[Evaluation]:
        """The evaluations of a row's ensembles."""
        if not (ensemble := self.scale.row(row).ensemble):
            return ()
        if row not in self._ensembles:
            members = [self.evaluation(trial) for trial, _ in self._finished(ensemble.of)]
            starts = range(0, len(members) - ensemble.runs + 1, ensemble.runs)
            groups = [members[start : start + ensemble.runs] for start in starts]
            self._ensembles[row] = [first.ensemble(further) for first, *further in groups]
        return self._ensembles[row]

    @property
    def not_run(self) -> dict[str, int]:
        """The number of unfinished trials of each row that has any."""
        names = [row.name for row in self.scale.made]
        missing = {name: len(self.of(name)) - len(self._finished(name)) for name in names}
        return {row: number for row, number in missing.items() if number}

    def first_evaluations(self) -> list[Evaluation]:
        """The evaluation of the first finished run of each row."""
        names = dict.fromkeys(trial.values[ROW] for trial in self.trials)
        finished = [self._finished(name)[:1] for name in names]
        return [self.evaluation(trial) for pairs in finished for trial, _ in pairs]

    def matrix(
        self, metric: str
    ) -> tuple[list[int], Float[np.ndarray, "1 R S"], Bool[np.ndarray, "R"]]:
        """A metric of all rows, NaN where there is no finished trial.

        Returns: the seeds of the columns, the values, and the rows whose deviation over seeds is
          one of trials.
        """
        values = [self.values(row.name, metric) for row in self.scale.systems]
        missed = [self.unreached(row.name) if metric == HOURS else {} for row in self.scale.systems]
        seeds = sorted({seed for by_seed in (*values, *missed) for seed in by_seed})
        matrix = [[by_seed.get(seed, math.nan) for seed in seeds] for by_seed in values]
        pool = [row.trained and row in self.scale.made for row in self.scale.systems]
        return seeds, np.array([matrix], float).reshape(1, len(values), -1), np.array(pool)

    def finished(self, row: str) -> int:
        """The number of a row's finished trials, or of its ensembles."""
        if self.scale.row(row).ensemble:
            return len(self.ensembles(row))
        return len(self._finished(row))

    def planned(self, row: str) -> int:
        """The number of a row's seeds, or ensembles, in the table's file."""
        scale = self.spec.scales[self.scale.name]
        if ensemble := scale.row(row).ensemble:
            return scale.row(ensemble.of).planned // ensemble.runs
        return scale.row(row).planned

    @functools.cached_property
    def later(self) -> "TableResults":
        """The results of the trials that had not been stored when the rule was fixed."""
        seen = {row.name: row.seen for row in self.scale.systems}
        numbers = collections.Counter[str]()
        kept = []
        for pair in self.pairs:
            row = pair[0].values[ROW]
            if numbers[row] >= seen[row]:
                kept.append(pair)
            numbers[row] += 1
        trials = [trial for trial, _ in kept]
        statuses = [status for _, status in kept]
        return dataclasses.replace(self, trials=trials, statuses=statuses)

    def example_error(self, row: str, than: Sequence[str], metric: str) -> float:
        """The standard error, over the examples, of the difference of the means over all seeds.

        Args:
          than: the other row; empty for the error of the row's own mean.

        Raises:
          IncomparableError: if their examples differ.
        """
        baselines = [evaluation for name in than for evaluation in self._evaluations_of(name)]
        runs = self._evaluations_of(row)
        return self.evaluation_class.example_error(runs, baselines, metric)

    def _evaluations_of(self, row: str) -> list[Evaluation]:
        finished = [self.evaluation(trial) for trial, _ in self._finished(row)]
        return [*self.ensembles(row)] or finished

    def evaluation(self, trial: Trial) -> Evaluation:
        """The evaluation of a trial's run, labelled by its row; always the same object."""
        if trial.name not in self._evaluations:
            run = Run(trial.values[ROW], trial.workdir)
            self._evaluations[trial.name] = self.evaluation_class(run, self.scale.split)
        return self._evaluations[trial.name]

    @functools.cached_property
    def evaluation_class(self) -> type[Evaluation]:
        """The class of the evaluations of the rows' task."""
        return evaluation_class(task_class(self.trials[0].config.task))

    def _value(self, trial: Trial, status: TrialStatus, metric: str) -> float | None:
        if metric == HOURS and self.scale.target:
            least = self.scale.target.value
            reached = (hours for hours, value in self._validations(trial.workdir) if value >= least)
            return next(reached, None)
        value = status.metrics.get(f"{self.scale.split}.{metric}")
        if value is None and metric in self.evaluation_class.metrics:
            value = self.evaluation(trial).further_metrics.get(metric)
        return value

    def _validations(self, workdir: RunFolder) -> list[tuple[float, float]]:
        """The hours of training until each validation, and the target's metric then."""
        name = self.scale.target.metric if self.scale.target else ""
        return [(line["wall_seconds"] / 3600, line[name]) for line in workdir.validations()]

    @functools.cached_property
    def _ensembles(self) -> dict[str, list[Evaluation]]:
        """The evaluations of each row's ensembles, once made."""
        return {}

    @functools.cached_property
    def _values(self) -> dict[tuple[str, str], dict[int, float]]:
        """The values of each row by each metric, once read."""
        return {}

    @functools.cached_property
    def _evaluations(self) -> dict[str, Evaluation]:
        """The evaluation of each trial, once made: a page reads the metrics of each many times."""
        return {}


def read_results(
    spec: TableSpec,
    scale: Scale,
    trials: Sequence[Trial],
    timed: Mapping[str, Any],
    notes: Sequence[str],
) -> TableResults:
    """The results of a table's trials, from their workdirs.

    Args:
      timed: the machine and, as "rows", the speeds; empty if there are none.
    """
    machine = "{devices} x {device}, {cpu_cores} CPU cores, jax {versions[jax]}"
    machine = machine.format_map(timed) if timed else ""
    busy = ""
    if "load_before" in timed:
        load = timed["load_before"]
        cores = timed["cpu_cores"]
        machine += f", load average {load} before the first round"
        busy = f"a load average of {load} on {cores} CPU cores" if load > cores else ""
    statuses = [find(trial) for trial in trials]
    return TableResults(spec, scale, trials, statuses, timed.get("rows", {}), notes, machine, busy)


def rows_of(results: TableResults) -> list[dict[str, Any]]:
    """The table's rows, also those without trials, by the columns of `HEAD`."""
    rows = []
    for metric in results.scale.metrics:
        values = {
            row.name: [*results.values(row.name, metric).values()] for row in results.scale.systems
        }
        intervals = _intervals(results, metric, values)
        for row in results.scale.systems:
            mean = statistics.fmean(values[row.name]) if values[row.name] else None
            cells = (
                *(row.name, metric, row.published.get(metric), mean),
                *intervals.get(row.name, (None, None)),
                *(len(values[row.name]), results.parameters(row.name)),
                results.speed(row.name, metric if metric in SPEEDS else SPEEDS[0]),
            )
            rows.append(dict(zip(HEAD, cells, strict=True)))
    return rows


def _intervals(
    results: TableResults, metric: str, values: Mapping[str, Sequence[float]]
) -> dict[str, tuple[float, float]]:
    """The 95 % intervals of the means of the rows that vary over seeds, within the metric's range.

    Args:
      values: of each row's seeds.
    """
    # The deviation is pooled over rows of trials, not over several ensembles, whose runs are trials
    # of another row; a single value adds nothing to it.
    varying = {
        row.name: number
        for number, row in enumerate(results.scale.systems)
        if values[row.name] and (row.trained or metric in SPEEDS)
    }
    pooled = [
        name for name in varying if len(values[name]) == 1 or not results.scale.row(name).ensemble
    ]
    halves = dict(zip(pooled, interval_of_means([values[name] for name in pooled]), strict=True))
    _, matrix, _ = results.matrix(metric)
    trials = Trials(matrix, np.array([row.name in halves for row in results.scale.systems]))

    # With several seeds the interval is that of all trials.
    intervals = {}
    least, most = _range(metric)
    for name, number in varying.items():
        if len(values[name]) > 1:
            ends = trials.difference(number).interval()
            low, high = (float(end[0]) for end in ends)
        elif (half := halves[name]) is not None:
            low = values[name][0] - half
            high = values[name][0] + half
        else:
            continue
        intervals[name] = max(low, least), min(high, most)
    return intervals


def _range(metric: str) -> tuple[float, float]:
    """The least and the largest possible value."""
    if metric in MEASURED:
        return 0.0, math.inf
    if metric.startswith(("nll", "log_likelihood")):
        return -math.inf, math.inf
    return 0.0, 100.0


def to_csv(results: TableResults) -> str:
    """The rows as CSV, numbers with six significant digits."""

    def short(value: Any) -> Any:
        return f"{value:.6g}" if isinstance(value, float) else value

    rows = [{name: short(value) for name, value in row.items()} for row in rows_of(results)]
    return csv_text(HEAD, rows)
