"""The page of a table: each row beside the paper, a verdict on each claim; as a report and CSV."""

import csv
import dataclasses
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common_jax.compare import Comparison, IncomparableError, Run, comparison_of
from common_jax.metrics.seeds import interval_of_means
from common_jax.metrics.verdict import Verdict, judge
from common_jax.report.document import Cell, Part, Report, Section, Table
from common_jax.sweep.figure import sweep_charts
from common_jax.sweep.plan import Trial
from common_jax.sweep.results import TrialStatus, find
from common_jax.tables.spec import Claim, TableSpec
from common_jax.tables.trials import ROW, claims_of, fields_of
from common_jax.training.config import task_class

HEAD = ("row", "metric", "published", "mean", "low", "high", "seeds", "parameters", "speed")
_RULE = (
    "A claim is confirmed if the 95 % interval of the mean difference over the seeds is above 0, "
    "contradicted if it is below 0, and otherwise undecidable. The interval has the noise of the "
    "seeds (Student's t) and of the examples. Detectable is the true difference that is confirmed "
    "with a probability of 80 % under this noise."
)


@dataclasses.dataclass(frozen=True)
class Judged:
    """A claim and its verdict; None, with the reason, if runs are missing or not comparable."""

    claim: Claim
    verdict: Verdict | None
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Results:
    """A table's trials at a scale, read.

    Attributes:
      speeds: of the rows' training steps, relative to the first row, if measured.
      notes: on trials that were not used.
    """

    spec: TableSpec
    scale: str
    trials: Sequence[Trial]
    statuses: Sequence[TrialStatus]
    speeds: Mapping[str, float]
    notes: Sequence[str]

    def values(self, row: str, metric: str) -> list[float]:
        """A metric of a row's finished trials, by seed."""
        name = f"{self.spec.scales[self.scale].split}.{metric}"
        return [
            status.metrics[name]
            for trial, status in self._of(row)
            if status.state == "finished" and name in status.metrics
        ]

    def parameters(self, row: str) -> int | None:
        """Of a row's model."""
        return next((s.parameters for _, s in self._of(row) if s.parameters), None)

    def judged(self) -> list[Judged]:
        """The verdicts on the claims."""
        return [self._judged(claim) for claim in claims_of(self.spec, self.scale)]

    def _of(self, row: str) -> list[tuple[Trial, TrialStatus]]:
        pairs = zip(self.trials, self.statuses, strict=True)
        return [(trial, status) for trial, status in pairs if trial.values[ROW] == row]

    def _judged(self, claim: Claim) -> Judged:
        own, others = (self.values(row, claim.metric) for row in (claim.row, claim.than))
        seeds = self.spec.scales[self.scale].seeds
        if len(own) < seeds or len(others) < seeds:
            return Judged(claim, None, f"{seeds} finished runs of both rows are needed")
        (first, _), (second, _) = self._of(claim.row)[0], self._of(claim.than)[0]
        comparison: type[Comparison] = comparison_of(task_class(first.config.task))
        run, other = Run(claim.row, first.workdir), Run(claim.than, second.workdir)
        split = self.spec.scales[self.scale].split
        try:
            error = comparison.example_error(run, other, split, claim.metric)
        except IncomparableError as reason:
            return Judged(claim, None, str(reason))
        return Judged(claim, judge(np.array(own) - np.array(others), error))


def read_results(
    spec: TableSpec,
    scale: str,
    trials: Sequence[Trial],
    speeds: Mapping[str, float],
    notes: Sequence[str],
) -> Results:
    """The results of a table's trials, from their workdirs."""
    return Results(spec, scale, trials, [find(trial) for trial in trials], speeds, notes)


def rows_of(results: Results) -> list[dict[str, Any]]:
    """The table's rows, by the columns of `HEAD`; the paper's rows that are no trials too."""
    scale = results.spec.scales[results.scale]
    rows = []
    for metric in scale.metrics:
        values = {row.name: results.values(row.name, metric) for row in results.spec.rows}
        present = {name: group for name, group in values.items() if group}
        halves = dict(zip(present, interval_of_means([*present.values()]), strict=True))
        for row in results.spec.rows:
            mean = statistics.fmean(values[row.name]) if values[row.name] else None
            half = halves.get(row.name)
            bounds = (None, None) if mean is None or half is None else (mean - half, mean + half)
            cells = (
                *(row.name, metric, row.published.get(metric), mean, *bounds),
                *(len(values[row.name]), results.parameters(row.name)),
                results.speeds.get(row.name),
            )
            rows.append(dict(zip(HEAD, cells, strict=True)))
    return rows


def to_csv(results: Results) -> str:
    """The rows as CSV, numbers with six significant digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, HEAD, lineterminator="\n")
    writer.writeheader()
    for row in rows_of(results):
        short = lambda value: f"{value:.6g}" if isinstance(value, float) else value
        writer.writerow({name: short(value) for name, value in row.items()})
    return text.getvalue()


def page(results: Results, command: str) -> Report:
    """The page of a table.

    Args:
      command: that makes it again.
    """
    spec, scale = results.spec, results.spec.scales[results.scale]
    about = [
        f"{spec.source}, at the scale {results.scale!r}: {scale.config}, split {scale.split}, "
        f"{scale.seeds} seeds a row.",
        f"Made by: {command}",
        *results.notes,
    ]
    sections = [Section("Setting", about), Section("Results", _tables(results))]
    if spec.kind == "figure":
        fields = [
            dataclasses.replace(trial, values=fields_of(spec, trial)) for trial in results.trials
        ]
        name = f"{scale.split}.{scale.metrics[0]}"
        if finished := any(name in status.metrics for status in results.statuses):
            charts = sweep_charts(fields, results.statuses, name)
            sections.append(Section("Figure", charts if finished else []))
    if judged := results.judged():
        sections.append(Section("Claims", _claims(judged)))
    if missing := [row for row in spec.rows if row.missing]:
        rows = [[row.name, row.missing] for row in missing]
        sections.append(
            Section("Rows of the paper that are not run", [Table(("row", "why"), rows)])
        )
    return Report(f"{spec.name}: {spec.title}", sections)


def _tables(results: Results) -> list[Part]:
    """A table for each metric."""
    parts: list[Part] = []
    note = "Ours: the mean over the seeds, with its 95 % interval (one deviation for all rows)."
    if results.speeds:
        note += " Speed: of training steps, relative to the first row, timed in turn in one run."
    for metric in results.spec.scales[results.scale].metrics:
        rows = [row for row in rows_of(results) if row["metric"] == metric]
        cells = [
            [
                row["row"],
                row["published"],
                _interval(row),
                row["seeds"],
                row["parameters"],
                row["speed"],
            ]
            for row in rows
        ]
        parts.append(Table(("row", "paper", metric, "seeds", "parameters", "speed"), cells, note))
    return parts


def _interval(row: Mapping[str, Any]) -> Cell:
    if row["mean"] is None or row["low"] is None:
        return row["mean"]
    return f"{row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def _claims(judged: Sequence[Judged]) -> list[Part]:
    head = ("claim", "verdict", "difference", "detectable")
    rows: list[list[Cell]] = []
    for one in judged:
        if one.verdict is None:
            rows.append([one.claim.text, f"not judged: {one.reason}", None, None])
            continue
        verdict = one.verdict
        known = math.isfinite(verdict.low)
        interval = f" ({verdict.low:+.2f} to {verdict.high:+.2f})" if known else " (one seed)"
        detectable = f"{verdict.detectable:.2f}" if known else None
        rows.append(
            [one.claim.text, verdict.decision, f"{verdict.mean:+.2f}{interval}", detectable]
        )
    return [Table(head, rows, _RULE)]
