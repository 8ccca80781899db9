"""The page of a table: a verdict on each claim, and each row beside the paper."""

import dataclasses
import functools
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from common_jax.document import Cell, Element, Report, Section, Table, without_empty
from launch.pages.examples import differing
from launch.pages.runs import learning_curves
from launch.reproduce.claim_tables import evidence_elements, verdict_elements
from launch.reproduce.claims import Judged, speed_ratio
from launch.reproduce.results import TableResults, rows_of
from launch.reproduce.table_file import HOURS, MEASURED, SPEEDS
from launch.reproduce.trials import fields_of
from launch.trials.figure import sweep_charts

_FIRST = "first seed of each row"
_NOTE = (
    "The mean over the seeds, with its 95 % interval; the deviation between seeds is estimated "
    "from all rows together, also for rows with one seed; the interval reaches over the row's own "
    "90 % interval, and with five seeds or more it is its own."
)
_SPEED_NOTE = "Speed: of training steps, relative to the first row, timed in turn in one run."
_BOUND = (
    "The hours are those until the first evaluation that reaches the target. In a claim that a "
    "row needs more, a training that never reaches it counts with all its hours, a lower bound."
)


def page(
    results: TableResults,
    verdicts: Sequence[Judged],
    command: str,
    answers: Mapping[str, Mapping[str, str]] | None = None,
) -> Report:
    """The page of a table: verdicts, results, how they were judged, settings, what was not run.

    Args:
      verdicts: on the claims of the scale.
      command: that reproduces it.
      answers: by the example's name and the row's.
    """
    spec = results.spec
    scale = results.scale
    runs = [evaluation.run for evaluation in results.first_evaluations()]

    # The sections in the order of their interest; those without elements are left out.
    sections = [
        Section(
            "Verdicts", [here(results), *verdict_elements(results, verdicts)] if verdicts else []
        ),
        Section("Results", _tables(results)),
        *(_figures(results) if spec.kind == "figure" else []),
        Section(f"Learning, {_FIRST}", learning_curves(runs) if scale.curves and runs else []),
        Section("Examples", _examples(results, answers or {})),
        Section(f"Examples that differ most, {_FIRST}", _differing(results)),
        Section(
            "How the claims were judged", evidence_elements(results, verdicts) if verdicts else []
        ),
        Section("Setting", _setting(results, command)),
        Section("Not run", _not_run(results)),
    ]
    title = f"{spec.name}: {spec.title}"
    return Report(title, [section for section in sections if section.elements])


def _setting(results: TableResults, command: str) -> list[Element]:
    """What was run, on what, and how the rows differ from the paper's."""
    # What was run: files, split, command and machine.
    spec = results.spec
    scale = results.scale
    files = dict.fromkeys(row.file.partition(":")[0] for row in scale.made)
    about = [
        f"{spec.source}, at the scale {scale.name!r}: {', '.join(files)}, split {scale.split}.",
        *([scale.note] if scale.note else []),
        f"Made by: {command}",
        *([f"Speeds were measured on {results.machine}."] if results.speeds else []),
        *results.notes,
    ]

    # How rows differ, and what else the paper has of them.
    notes = [[row.name, row.note] for row in scale.systems if row.note and not row.missing]
    shown = _published_metrics(results)
    keys = [key for row in scale.systems for key in row.published if key not in shown]
    further = [*dict.fromkeys(keys)]
    published = [row for row in scale.systems if {*further} & {*row.published}]
    tables: list[Element] = []
    if notes:
        tables.append(Table(("row", "note"), notes))
    if further:
        columns = ["row", *(spec.columns.get(key, key) for key in further)]
        rows = [[row.name, *map(row.published.get, further)] for row in published]
        tables.append(Table(columns, rows, "Further numbers of the paper."))
    return [*about, *tables]


def _not_run(results: TableResults) -> list[Element]:
    """The rows without runs or without all their seeds, with the command that trains them."""
    spec = results.spec
    scale = results.scale
    not_run = {} if spec.kind == "speed" else results.not_run
    rows: list[list[Cell]] = []

    # The rows that cannot be made, or lack seeds, with the paper's numbers.
    for row in scale.systems:
        number = not_run.get(row.name, 0)
        if not number and not row.missing:
            continue
        reason = row.missing or f"{number} of {results.planned(row.name)} seeds"
        published = [row.published.get(metric) for metric in scale.metrics]
        rows.append([row.name, reason, *published])
    if not rows:
        return []

    # The command that trains what is missing.
    titles = [f"paper: {spec.columns.get(metric, metric)}" for metric in scale.metrics]
    table = Table(*without_empty(["row", "missing", *titles], rows))
    if not not_run:
        return [table]
    command = f"python -m launch.reproduce {spec.name} --scale {scale.name} --data DIR --out OUT"
    example = shlex.quote(next(iter(not_run)))
    return [
        f"{command} trains what is missing; with --rows {example} that row alone.",
        table,
    ]


def here(results: TableResults) -> str:
    """What "here" means in the page's verdicts."""
    scale = results.scale
    titles = results.spec.columns
    metrics = dict.fromkeys(claim.metric for claim in scale.claims if claim.metric not in MEASURED)
    settings = [_span([status.parameters for status in results.statuses], "parameters")]
    if results.spec.kind != "speed":
        finished = [status for status in results.statuses if status.state == "finished"]
        settings += [scale.trained_on, _span([status.step for status in finished], "steps")]
    settings += [
        f"judged on {scale.split} by {' or '.join(titles.get(name, name) for name in metrics)}"
        if metrics
        else "speed",
        f"on {', '.join(results.devices)}" if results.devices else "",
    ]
    return f'In a verdict "here" means: {", ".join(filter(None, settings))}.'


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
        line = "\t".join(example.texts)
        texts = "; ".join(example.texts)
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
    if not any(row.varied for row in scale.systems):
        evaluations = results.first_evaluations()
        sections = evaluations[0].sections(evaluations[1:]) if evaluations else ()
        return [Section(f"{section.title}, {_FIRST}", section.elements) for section in sections]
    name = f"{scale.split}.{scale.metrics[0]}"
    if not any(name in status.metrics for status in results.statuses):
        return []
    varied = {field for row in scale.systems for field in row.varied}
    settings = [fields_of(scale, trial) for trial in results.trials]
    points = [number for number, fields in enumerate(settings) if varied <= fields.keys()]
    trials = [dataclasses.replace(results.trials[n], values=settings[n]) for n in points]
    charts = sweep_charts(trials, [results.statuses[n] for n in points], name)
    return [Section("Figure", charts)]


def _tables(results: TableResults) -> list[Element]:
    """The rows that have runs, with each metric of the paper and of these runs."""
    titles = results.spec.columns
    scale = results.scale
    columns: dict[str, list[Cell]] = {
        f"paper: {titles.get(metric, metric)}": [row.published.get(metric) for row in scale.systems]
        for metric in _published_metrics(results)
    }
    notes = []
    by_row: dict[str, dict[str, Any]] = {}

    # A column of each metric; the first that is no speed has the seeds and sizes.
    for metric in scale.metrics:
        title = titles.get(metric, metric)
        if metric in SPEEDS:
            columns |= _speeds(results, metric, title)
            continue
        made = {row["row"]: row for row in rows_of(results) if row["metric"] == metric}
        if not by_row:
            by_row = made
        show = functools.partial(_hours, results) if metric == HOURS else _interval
        columns[title] = [show(made[row.name]) for row in scale.systems]
        if metric == HOURS:
            notes.append(_BOUND)

    if by_row:
        notes.insert(0, _NOTE)
        for name in ("seeds", "parameters", "speed"):
            columns[name] = [by_row[row.name][name] for row in scale.systems]
        if results.speeds:
            notes.append(_SPEED_NOTE)
    else:
        notes.append(_rounds(results))

    # Rows without a result here are listed as not run.
    ours = [column for title, column in columns.items() if not title.startswith("paper: ")]
    kept = [n for n, _ in enumerate(scale.systems) if any(column[n] for column in ours)]
    if not kept:
        return []
    rows: list[list[Cell]] = [
        [scale.systems[n].name, *(column[n] for column in columns.values())] for n in kept
    ]
    return [Table(*without_empty(["row", *columns], rows), " ".join(notes))]


def _published_metrics(results: TableResults) -> list[str]:
    """The paper's metrics that are shown beside those of the runs: the same, or of the same unit;
    without speeds."""
    units = results.spec.units
    metrics = results.scale.metrics
    shown = {units.get(metric, metric) for metric in metrics if metric not in SPEEDS}
    published = dict.fromkeys(key for row in results.scale.systems for key in row.published)
    return [metric for metric in published if units.get(metric, metric) in shown]


def _speeds(results: TableResults, metric: str, title: str) -> dict[str, list[Cell]]:
    """Two columns: a speed of each row relative to the first, in the paper and here."""
    first, *_ = results.scale.systems
    reference = results.values(first.name, metric)
    published = first.published.get(metric)
    papers: list[Cell] = []
    ours: list[Cell] = []

    # Here a ratio has an interval; the first row's to itself is 1.
    for row in results.scale.systems:
        paper = row.published.get(metric)
        values = results.values(row.name, metric)
        papers.append(paper / published if paper and published else None)
        if not values or not reference:
            ours.append(None)
            continue
        ratio = speed_ratio(values, reference)
        mean, low, high = map(math.exp, (ratio.mean, ratio.low, ratio.high))
        ours.append(f"{mean:.2f} ({low:.2f} to {high:.2f})" if row is not first else mean)
    return {f"paper: {title}": papers, title: ours}


def _rounds(results: TableResults) -> str:
    """The note on a table of speeds."""
    first, *_ = results.scale.systems
    rounds = max(len(results.values(first.name, metric)) for metric in results.scale.metrics)
    return (
        f"Speeds relative to {first.name}: the mean over {rounds} rounds, in which the rows were "
        "timed in turn, with its 95 % interval. Rates are in table.csv."
    )


def _hours(results: TableResults, row: Mapping[str, Any]) -> Cell:
    missed = len(results.unreached(row["row"]))
    if not missed:
        return _interval(row)
    return f"not reached by {missed} of {missed + row['seeds']} seeds"


def _interval(row: Mapping[str, Any]) -> Cell:
    if row["low"] is None:
        return row["mean"]
    return f"{row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
