"""The page of a table: each row beside the paper, a verdict on each claim; as a report and CSV."""

import dataclasses
import functools
import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common_jax.compare import (
    Comparison,
    IncomparableError,
    Run,
    comparison_of,
    differing,
    learning_curves,
)
from common_jax.metrics.seeds import interval_of_means
from common_jax.metrics.verdict import Verdict, judge
from common_jax.report.document import Cell, Part, Report, Section, Table
from common_jax.sweep.figure import sweep_charts
from common_jax.sweep.plan import SEED, Trial
from common_jax.sweep.results import TrialStatus, csv_text, find
from common_jax.tables.spec import HOURS, MEASURED, SPEEDS, Claim, Scale, TableSpec
from common_jax.tables.trials import ROW, fields_of
from common_jax.training.config import task_class
from common_jax.training.log import read_metrics

HEAD = ("row", "metric", "published", "mean", "low", "high", "seeds", "parameters", "speed")
_FIRST = "first seed of each row"
_RULE = (
    "A claim that A is better than B is confirmed if the 95 % interval of the mean difference over "
    "the seeds is above 0, contradicted if it is below 0, and otherwise undecidable; that A is "
    "comparable with B, if the interval is within the bounds, or outside of them. The interval has "
    "the noise of the seeds (Student's t) and of the examples. A ratio of speeds is judged by its "
    "logarithm in several rounds of timing. A claim on several metrics must hold for all; the one "
    "with the lowest interval is shown. Detectable is the true difference that is confirmed with a "
    "probability of 80 % under this noise; of comparable systems, the bound."
)
Speeds = Mapping[str, Mapping[str, Sequence[float]]]


@dataclasses.dataclass(frozen=True)
class Judged:
    """A claim and its verdict, as cells; without numbers if it cannot be judged.

    Attributes:
      decision: "confirmed", "contradicted", or "undecidable" with the reason.
    """

    claim: Claim
    decision: str
    difference: str = ""
    detectable: str = ""


@dataclasses.dataclass(frozen=True)
class Results:
    """The results of a table's trials at a scale.

    Attributes:
      speeds: by row and name of `SPEEDS`, batches a second in each round; the rows of a round were
        measured in turn.
      notes: on trials that were not used.
      machine: that of the speeds.
    """

    spec: TableSpec
    scale: Scale
    trials: Sequence[Trial]
    statuses: Sequence[TrialStatus]
    speeds: Speeds
    notes: Sequence[str]
    machine: str = ""

    def values(self, row: str, metric: str) -> dict[int, float]:
        """A metric of a row's finished trials by seed; a speed by the number of its round."""
        if metric in SPEEDS:
            return dict(enumerate(self.speeds.get(row, {}).get(metric, ())))
        values = {t.values[SEED]: self._value(t, status, metric) for t, status in self.of(row)}
        return {seed: value for seed, value in values.items() if value is not None}

    def parameters(self, row: str) -> int | None:
        """The number of parameters of a row's model."""
        return next((s.parameters for _, s in self.of(row) if s.parameters), None)

    def speed(self, row: str) -> float | None:
        """The speed of a row's training steps relative to the first row, the median of rounds."""
        if row not in self.speeds:
            return None
        first = next(iter(self.speeds.values()))[SPEEDS[0]]
        own = self.speeds[row][SPEEDS[0]]
        return statistics.median(a / b for a, b in zip(own, first, strict=True))

    def of(self, row: str) -> list[tuple[Trial, TrialStatus]]:
        """A row's trials."""
        pairs = zip(self.trials, self.statuses, strict=True)
        return [(trial, status) for trial, status in pairs if trial.values[ROW] == row]

    @property
    def not_run(self) -> list[str]:
        """The rows with trials, none of them finished."""
        finished = {run.label for run in self.runs()}
        return [row.name for row in self.scale.made if row.name not in finished]

    def runs(self) -> list[Run]:
        """The first finished run of each row."""
        first: dict[str, Run] = {}
        for trial, status in zip(self.trials, self.statuses, strict=True):
            if status.state == "finished":
                first.setdefault(trial.values[ROW], Run(trial.values[ROW], trial.workdir))
        return [*first.values()]

    @functools.cached_property
    def comparison(self) -> type[Comparison]:
        """The comparison of the rows' task."""
        return comparison_of(task_class(self.trials[0].config.task))

    def _value(self, trial: Trial, status: TrialStatus, metric: str) -> float | None:
        if status.state != "finished":
            return None
        if metric == HOURS and self.scale.target:
            name, least = self.scale.target
            dev = (line for line in read_metrics(trial.workdir.metrics) if line.get(name))
            seconds = (line["wall_seconds"] for line in dev if line[name] >= least)
            return next((second / 3600 for second in seconds), None)
        if metric not in self.comparison.metrics:
            return status.metrics.get(f"{self.scale.split}.{metric}")
        if trial.name not in self._further:
            run = Run(trial.name, trial.workdir)
            self._further[trial.name] = self.comparison.further(run, self.scale.split)
        return self._further[trial.name].get(metric)

    @functools.cached_property
    def _further(self) -> dict[str, Mapping[str, float]]:
        """By trial, the metrics computed from its files; a page reads each many times."""
        return {}


def judged(results: Results) -> list[Judged]:
    """The verdicts on the claims of a scale."""
    return [_judged(results, claim) for claim in results.scale.claims]


def _judged(results: Results, claim: Claim) -> Judged:
    for row in results.scale.rows:
        if row.missing and row.name in (claim.row, claim.than):
            return Judged(claim, f"undecidable: {row.name} has no runs here")
    if claim.relation == "equal":
        own, other = results.parameters(claim.row), results.parameters(claim.than)
        if own is None or other is None:
            return Judged(claim, "undecidable: finished runs of both rows are needed")
        return Judged(claim, "confirmed" if own == other else "contradicted", f"{own - other:+,}")
    try:
        verdicts = [_verdict(results, claim, metric) for metric in claim.metrics]
    except IncomparableError as reason:
        return Judged(claim, f"undecidable: {reason}")
    decisions = [verdict.decision for verdict in verdicts]
    shown = min(verdicts, key=lambda verdict: verdict.low)
    wrong = "contradicted" if "contradicted" in decisions else "undecidable"
    decision = "confirmed" if {*decisions} == {"confirmed"} else wrong

    def written(value: float) -> str:
        is_ratio = claim.relation == "ratio"
        return f"{claim.factor * math.exp(value):.2f} times" if is_ratio else f"{value:+.2f}"

    if not math.isfinite(shown.low):
        half = shown.example_half_width
        bounds = f"{written(shown.mean - half)} to {written(shown.mean + half)} by the examples; "
        return Judged(claim, decision, f"{written(shown.mean)} ({bounds if half else ''}one seed)")
    interval = f"{written(shown.mean)} ({written(shown.low)} to {written(shown.high)})"
    return Judged(claim, decision, interval, written(shown.detectable).removeprefix("+"))


def _verdict(results: Results, claim: Claim, metric: str) -> Verdict:
    """Raises IncomparableError if runs are missing or their examples differ."""
    own, other = (results.values(row, metric) for row in (claim.row, claim.than))
    if claim.relation == "ratio":
        if not own or not other:
            raise IncomparableError("no speeds were measured")
        return _ratio(own, other, claim.factor)
    seeds = sorted(own.keys() & other.keys())
    if not seeds:
        raise IncomparableError(f"{metric} of both rows with the same seed is needed")
    first, second = (
        Run(row, next(t.workdir for t, _ in results.of(row) if t.values[SEED] == seeds[0]))
        for row in (claim.row, claim.than)
    )
    error = 0.0
    if metric != HOURS:
        error = results.comparison.example_error(first, second, results.scale.split, metric)
    differences = np.array([own[seed] - other[seed] for seed in seeds])
    return judge(differences, error, claim.within or None)


def _ratio(own: Mapping[int, float], other: Mapping[int, float], factor: float = 1.0) -> Verdict:
    """The logarithm of a ratio of speeds, relative to `factor`, over the rounds."""
    return judge(np.array([math.log(own[at] / other[at] / factor) for at in own]))


def read_results(
    spec: TableSpec,
    scale: Scale,
    trials: Sequence[Trial],
    timed: Mapping[str, Any],
    notes: Sequence[str],
) -> Results:
    """The results of a table's trials, from their workdirs.

    Args:
      timed: the machine and, as "rows", the speeds; empty if there are none.
    """
    machine = "{devices} x {device}, {cpu_cores} CPU cores, jax {versions[jax]}"
    machine = machine.format_map(timed) if timed else ""
    statuses = [find(trial) for trial in trials]
    return Results(spec, scale, trials, statuses, timed.get("rows", {}), notes, machine)


def rows_of(results: Results) -> list[dict[str, Any]]:
    """The table's rows, also those without trials, by the columns of `HEAD`."""
    rows = []
    for metric in results.scale.metrics:
        values = {
            row.name: [*results.values(row.name, metric).values()] for row in results.scale.rows
        }
        present = {name: group for name, group in values.items() if group}
        halves = dict(zip(present, interval_of_means([*present.values()]), strict=True))
        for row in results.scale.rows:
            mean = statistics.fmean(values[row.name]) if values[row.name] else None
            half = halves.get(row.name)
            bounds: tuple[float | None, float | None] = (None, None)
            if mean is not None and half is not None:
                bounds = (mean - half, mean + half)
                if _is_rate(metric):
                    bounds = (max(mean - half, 0.0), min(mean + half, 100.0))
            cells = (
                *(row.name, metric, row.published.get(metric), mean, *bounds),
                *(len(values[row.name]), results.parameters(row.name), results.speed(row.name)),
            )
            rows.append(dict(zip(HEAD, cells, strict=True)))
    return rows


def _is_rate(metric: str) -> bool:
    """Whether a metric is in percent."""
    return metric not in MEASURED and not metric.startswith(("nll", "log_likelihood"))


def to_csv(results: Results) -> str:
    """The rows as CSV, numbers with six significant digits."""
    short = lambda value: f"{value:.6g}" if isinstance(value, float) else value
    rows = [{name: short(value) for name, value in row.items()} for row in rows_of(results)]
    return csv_text(HEAD, rows)


def page(
    results: Results, command: str, answers: Mapping[str, Mapping[str, str]] | None = None
) -> Report:
    """The page of a table.

    Args:
      command: that reproduces it.
      answers: by the example's name and the row's.
    """
    spec, scale = results.spec, results.scale
    files = dict.fromkeys(row.file.partition(":")[0] for row in scale.made)
    about = [
        f"{spec.source}, at the scale {scale.name!r}: {', '.join(files)}, split {scale.split}.",
        *([scale.note] if scale.note else []),
        f"Made by: {command}",
        *([f"Speeds were measured on {results.machine}."] if results.speeds else []),
        *results.notes,
    ]
    notes = [[row.name, row.missing or row.note] for row in scale.rows if row.missing or row.note]
    commands: list[Part] = [
        f"python -m launch.reproduce {spec.name} --scale {scale.name} "
        f"--rows {shlex.quote(name)} --data DIR --out OUT"
        for name in results.not_run
        if spec.kind != "speed"
    ]
    titles = spec.columns
    claims = [[one.claim.text, ", ".join(titles.get(name, name) for name in one.claim.metrics),
               one.decision, one.difference or None, one.detectable or None]
              for one in judged(results)]  # fmt: skip
    examples: list[list[Cell]] = []
    pictures: list[Part] = []
    for one in scale.examples:
        for rows, answer in (answers or {}).get(one.name, {}).items():
            piped = len(one.through) > 1  # each run's answer is the next one's text
            line = "\t".join(one.texts)
            text, own = (answer, ()) if piped else results.comparison.pictured(answer, rows, line)
            examples.append([one.name, "; ".join(one.texts), one.paper or None, rows, text])
            pictures += own
    runs = results.runs()
    columns = ("example", "texts", "paper", "row", "ours")
    head = ("claim", "metric", "verdict", "difference", "detectable")
    sections = [
        Section("Setting", about),
        Section("Results", _tables(results)),
        *(_figures(results) if spec.kind == "figure" else []),
        Section(f"Learning, {_FIRST}", learning_curves(runs) if scale.curves and runs else []),
        Section("Examples", [Table(columns, examples), *pictures] if examples else []),
        Section("Claims", [Table(head, claims, _RULE)] if claims else []),
        Section(f"Examples that differ most, {_FIRST}", _differing(results)),
        Section("Notes on rows", [Table(("row", "note"), notes)] if notes else []),
        Section("Rows that were not run, and their commands", commands),
    ]
    title = f"{spec.name}: {spec.title}"
    return Report(title, [section for section in sections if section.parts])


def _differing(results: Results) -> list[Part]:
    """The examples where the first runs of the first claim's rows differ most, if the files of the
    runs suffice for it."""
    if results.comparison.needs_corpus or not results.scale.claims:
        return []
    claim, split = results.scale.claims[0], results.scale.split
    runs = {run.label: run for run in results.runs()}
    chosen = [runs[row] for row in (claim.than, claim.row) if row in runs]
    each = {run: results.comparison.predictions(run, split) for run in chosen}
    return differing(results.comparison, each) if len(each) == 2 else []


def _figures(results: Results) -> list[Section]:
    """Charts of the metric by the fields that rows set, with the rows that set all of them; if no
    row sets a field, the comparison of the runs."""
    scale = results.scale
    if not any(row.varied for row in scale.rows):
        sections = results.comparison.compare(results.runs(), scale.split) if results.runs() else ()
        return [Section(f"{each.title}, {_FIRST}", each.parts) for each in sections]
    name = f"{scale.split}.{scale.metrics[0]}"
    if not any(name in status.metrics for status in results.statuses):
        return []
    varied = {field for row in scale.rows for field in row.varied}
    settings = [fields_of(scale, trial) for trial in results.trials]
    points = [at for at, fields in enumerate(settings) if varied <= fields.keys()]
    trials = [dataclasses.replace(results.trials[at], values=settings[at]) for at in points]
    charts = sweep_charts(trials, [results.statuses[at] for at in points], name)
    return [Section("Figure", charts)]


def _tables(results: Results) -> list[Part]:
    """A table for each metric, and one for the paper's further columns."""
    parts: list[Part] = []
    titles, scale = results.spec.columns, results.scale
    finished = {run.label for run in results.runs()}
    absent = {row: "not run" for row in results.not_run}
    never = absent | {row: "not reached" for row in finished}  # without hours to the target
    note = "Ours: the mean over the seeds, with its 95 % interval (one deviation for all rows)."
    if results.speeds:
        note += " Speed: of training steps, relative to the first row, timed in turn in one run."
    made = rows_of(results)
    for metric in scale.metrics:
        if metric in SPEEDS:
            parts.append(_speeds(results, metric))
            continue
        cells = [
            [row["row"], row["published"],
             _interval(row, (never if metric == HOURS else absent).get(row["row"])),
             row["seeds"], row["parameters"], row["speed"]]
            for row in made if row["metric"] == metric
        ]  # fmt: skip
        head = ("row", "paper", titles.get(metric, metric), "seeds", "parameters", "speed")
        parts.append(Table(head, cells, note))
    keys = [key for row in scale.rows for key in row.published if key not in scale.metrics]
    if further := [*dict.fromkeys(keys)]:
        columns = ["row", *(titles.get(key, key) for key in further)]
        published = [row for row in scale.rows if {*further} & {*row.published}]
        rows = [[row.name, *map(row.published.get, further)] for row in published]
        parts.append(Table(columns, rows, "Further numbers of the paper."))
    return parts


def _speeds(results: Results, metric: str) -> Table:
    """A speed of each row relative to the first, in the paper and here."""
    first, *_ = results.scale.rows
    reference, published = results.values(first.name, metric), first.published.get(metric)
    cells: list[list[Cell]] = []
    for row in results.scale.rows:
        paper, values = row.published.get(metric), results.values(row.name, metric)
        relative = paper / published if paper and published else None
        ours: Cell = "not run"
        if values and reference:
            ratio = _ratio(values, reference)
            mean, low, high = map(math.exp, (ratio.mean, ratio.low, ratio.high))
            ours = f"{mean:.2f} ({low:.2f} to {high:.2f})" if row is not first else mean
        cells.append([row.name, paper, relative, ours])
    title = results.spec.columns.get(metric, metric)
    head = ("row", f"paper: {title}", f"paper, relative to {first.name}", "ours, relative")
    note = (
        f"Ours: {title}; the mean over {len(reference)} rounds, in which the rows were timed in "
        "turn, with its 95 % interval. Rates are in table.csv."
    )
    return Table(head, cells, note)


def _interval(row: Mapping[str, Any], absent: Cell) -> Cell:
    if row["mean"] is None:
        return absent
    if row["low"] is None:
        return row["mean"]
    return f"{row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
