"""The page of a table: each row beside the paper, a verdict on each claim; as a report and CSV."""

import dataclasses
import functools
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from common_jax.document import Cell, Element, Report, Section, Table
from launch.pages.examples import differing
from launch.pages.runs import learning_curves
from launch.reproduce.claims import CLAIMS, judged, rule, speed_ratio
from launch.reproduce.results import TableResults, rows_of
from launch.reproduce.table_file import HOURS, MEASURED, SPEEDS
from launch.reproduce.trials import fields_of
from launch.trials.figure import sweep_charts

_FIRST = "first seed of each row"
_BOUND = (
    " The hours are those until the first evaluation that reaches the target. In a claim that a "
    "row needs more, a training that never reaches it counts with all its hours, a lower bound."
)


def page(
    results: TableResults, command: str, answers: Mapping[str, Mapping[str, str]] | None = None
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
        *([here(results)] if scale.claims else []),
        *([scale.note] if scale.note else []),
        f"Made by: {command}",
        *([f"Speeds were measured on {results.machine}."] if results.speeds else []),
        *results.notes,
    ]
    notes = [[row.name, row.missing or row.note] for row in scale.rows if row.missing or row.note]
    commands: list[Element] = [
        f"python -m launch.reproduce {spec.name} --scale {scale.name} "
        f"--rows {shlex.quote(name)} --data DIR --out OUT  # {number} of its trials"
        for name, number in results.not_run.items()
        if spec.kind != "speed"
    ]
    titles = spec.columns
    verdicts = judged(results)
    claims = [[verdict.claim.text, titles.get(verdict.claim.metric, verdict.claim.metric),
               verdict.published or None, verdict.difference or None, verdict.decision,
               verdict.detectable or None, None if verdict.p is None else f"{verdict.p:.2g}",
               verdict.holm or None, verdict.beside or None]
              for verdict in verdicts]  # fmt: skip
    runs = [evaluation.run for evaluation in results.first_evaluations()]
    sections = [
        Section("Setting", about),
        Section("Results", _tables(results)),
        *(_figures(results) if spec.kind == "figure" else []),
        Section(f"Learning, {_FIRST}", learning_curves(runs) if scale.curves and runs else []),
        Section("Examples", _examples(results, answers or {})),
        Section("Claims", [Table(CLAIMS, claims, rule(results, verdicts))] if claims else []),
        Section(f"Examples that differ most, {_FIRST}", _differing(results)),
        Section("Notes on rows", [Table(("row", "note"), notes)] if notes else []),
        Section("Commands of trials that were not run", commands),
    ]
    title = f"{spec.name}: {spec.title}"
    return Report(title, [section for section in sections if section.elements])


def here(results: TableResults) -> str:
    """What "here" means in the page's verdicts."""
    scale, titles = results.scale, results.spec.columns
    metrics = dict.fromkeys(claim.metric for claim in scale.claims if claim.metric not in MEASURED)
    parts = [_span([status.parameters for status in results.statuses], "parameters")]
    if results.spec.kind != "speed":
        finished = [status for status in results.statuses if status.state == "finished"]
        parts += [scale.trained_on, _span([status.step for status in finished], "steps")]
    parts += [
        f"judged on {scale.split} by {' or '.join(titles.get(name, name) for name in metrics)}"
        if metrics
        else "speed",
        f"on {', '.join(results.devices)}" if results.devices else "",
    ]
    return f'In a verdict "here" means: {", ".join(filter(None, parts))}.'


def _span(numbers: Sequence[int | None], unit: str) -> str:
    """The smallest and the largest of some numbers; "" if there is none."""
    known = [number for number in numbers if number]
    ends = sorted({min(known), max(known)}) if known else []
    return f"{' to '.join(f'{end:,}' for end in ends)} {unit}" if ends else ""


def _examples(results: TableResults, answers: Mapping[str, Mapping[str, str]]) -> list[Element]:
    """A table of the answers to the table's examples, and the pictures of their attention."""
    cells: list[list[Cell]] = []
    pictures: list[Element] = []
    for example in results.scale.examples:
        line, texts = "\t".join(example.texts), "; ".join(example.texts)
        for rows, answer in answers.get(example.name, {}).items():
            text = answer
            if len(example.through) < 2:  # else each run's answer is the next one's text
                text, drawn = results.evaluation_class.pictured(answer, rows, line)
                pictures += drawn
            cells.append([example.name, texts, example.paper or None, rows, text])
    columns = ("example", "texts", "paper", "row", "ours")
    return [Table(columns, cells), *pictures] if cells else []


def _differing(results: TableResults) -> list[Element]:
    """The examples where the first runs of the first claim's rows differ most, if the files of the
    runs suffice for it."""
    if results.evaluation_class.needs_corpus or not results.scale.claims:
        return []
    claim = results.scale.claims[0]
    by_row = {evaluation.run.label: evaluation for evaluation in results.first_evaluations()}
    chosen = [by_row[row] for row in (claim.than, claim.row) if row in by_row]
    return differing(chosen) if len(chosen) == 2 else []


def _figures(results: TableResults) -> list[Section]:
    """Charts of the metric by the fields that rows set, of the rows that set all of them; if no row
    sets a field, the comparison of the runs."""
    scale = results.scale
    if not any(row.varied for row in scale.rows):
        evaluations = results.first_evaluations()
        sections = evaluations[0].sections(evaluations[1:]) if evaluations else ()
        return [Section(f"{section.title}, {_FIRST}", section.elements) for section in sections]
    name = f"{scale.split}.{scale.metrics[0]}"
    if not any(name in status.metrics for status in results.statuses):
        return []
    varied = {field for row in scale.rows for field in row.varied}
    settings = [fields_of(scale, trial) for trial in results.trials]
    points = [number for number, fields in enumerate(settings) if varied <= fields.keys()]
    trials = [dataclasses.replace(results.trials[n], values=settings[n]) for n in points]
    charts = sweep_charts(trials, [results.statuses[n] for n in points], name)
    return [Section("Figure", charts)]


def _tables(results: TableResults) -> list[Element]:
    """A table for each metric, and one for the paper's further columns."""
    tables: list[Element] = []
    titles, scale = results.spec.columns, results.scale
    absent = {row: "not run" for row in results.not_run}
    note = (
        "Ours: the mean over the seeds, with its 95 % interval; the deviation between seeds is "
        "estimated from all rows together, also for rows with one seed; the interval reaches over "
        "the row's own 90 % interval, and with five seeds or more it is its own."
    )
    if results.speeds:
        note += " Speed: of training steps, relative to the first row, timed in turn in one run."
    made = rows_of(results)
    for metric in scale.metrics:
        if metric in SPEEDS:
            tables.append(_speeds(results, metric))
            continue
        show = functools.partial(_hours, results) if metric == HOURS else _interval
        cells = [
            [row["row"], row["published"], show(row, absent.get(row["row"])),
             row["seeds"], row["parameters"], row["speed"]]
            for row in made if row["metric"] == metric
        ]  # fmt: skip
        head = ("row", "paper", titles.get(metric, metric), "seeds", "parameters", "speed")
        tables.append(Table(head, cells, note + (_BOUND if metric == HOURS else "")))
    keys = [key for row in scale.rows for key in row.published if key not in scale.metrics]
    if further := [*dict.fromkeys(keys)]:
        columns = ["row", *(titles.get(key, key) for key in further)]
        published = [row for row in scale.rows if {*further} & {*row.published}]
        rows = [[row.name, *map(row.published.get, further)] for row in published]
        tables.append(Table(columns, rows, "Further numbers of the paper."))
    return tables


def _speeds(results: TableResults, metric: str) -> Table:
    """A speed of each row relative to the first, in the paper and here."""
    first, *_ = results.scale.rows
    reference, published = results.values(first.name, metric), first.published.get(metric)
    cells: list[list[Cell]] = []
    for row in results.scale.rows:
        paper, values = row.published.get(metric), results.values(row.name, metric)
        relative = paper / published if paper and published else None
        ours: Cell = "not run"
        if values and reference:
            ratio = speed_ratio(values, reference)
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


def _hours(results: TableResults, row: Mapping[str, Any], absent: Cell) -> Cell:
    missed = len(results.unreached(row["row"]))
    if not missed:
        return _interval(row, absent)
    return f"not reached by {missed} of {missed + row['seeds']} seeds"


def _interval(row: Mapping[str, Any], absent: Cell) -> Cell:
    if row["mean"] is None:
        return absent
    if row["low"] is None:
        return row["mean"]
    return f"{row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
