"""The report of some runs: sections common to all tasks, and the comparisons of their tasks."""

import dataclasses
import functools
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from common_jax.compare.evaluation import Evaluation, evaluation_of
from common_jax.compare.runs import Run
from common_jax.document import (
    Cell,
    Chart,
    Element,
    Report,
    Section,
    Series,
    Table,
    without_empty,
)
from common_jax.errors import UserError
from common_jax.training.identity import SEED
from common_jax.training.scored_run import devices, not_finite
from common_jax.training.task import Task
from launch.pages.examples import example_sections
from launch.pages.mistakes import mistake_sections
from launch.seeds import interval_of_means


def report(
    runs: Sequence[Run],
    split: str | None = None,
    *,
    examples: bool = True,
    most_curves: int | None = None,
) -> Report:
    """Training, speed, scores with intervals and the paper's results, learning curves, and the
    comparisons of the task. The first run of each family is the baseline.

    Args:
      split: for the comparisons; None is the task's last.
      examples: whether to include the examples where runs differ most, and pictures of attention.
      most_curves: of a family, those of unfinished runs first; None for all.

    Raises:
      UserError: for a split that no run has.
    """
    require_split(runs, split)
    families: dict[type[Task], list[Run]] = {}
    for run in runs:
        families.setdefault(type(run.task), []).append(run)
    sections = [Section("Runs", [_trained(runs), *bad_steps(runs), *_warnings(runs)])]
    sections.append(Section("Speed", _speed(runs)))

    # sections of each family
    for family, members in families.items():
        name = _title(family)
        sections.append(Section(f"{name}: settings", _settings(members)))
        chosen = split or members[0].task.splits[-1]
        scored = [run for run in members if run.workdir.is_scored(chosen)]
        missing = ", ".join(run.label for run in members if run not in scored)
        notes = [f"Not scored on {chosen}, hence not compared: {missing}."] if missing else []
        sections.append(Section(f"{name}: scores", [*scores(members), *notes]))
        sections.append(Section(f"{name}: learning", _learning(members, most_curves)))
        if scored:
            evaluations = [evaluation_of(run, chosen) for run in scored]
            compared = [*_comparisons(*evaluations)]
            compared += example_sections(evaluations) if examples else []
            compared += mistake_sections(evaluations)
            sections += [dataclasses.replace(s, title=f"{name}: {s.title}") for s in compared]

    title = ", ".join(_title(family) for family in families)
    return Report(title, [s for s in sections if s.elements])


def require_split(runs: Sequence[Run], split: str | None) -> None:
    """Raises UserError for a split that no run has."""
    if split is not None and not any(split in run.task.splits for run in runs):
        splits = dict.fromkeys(name for run in runs for name in run.task.splits)
        raise UserError(f"--split {split}: must be {' | '.join(splits)}")


@functools.lru_cache(8)  # of families, for a page that is written again
def _comparisons(baseline: Evaluation, *compared: Evaluation) -> Sequence[Section]:
    return baseline.sections(compared)


def _trained(runs: Iterable[Run]) -> Table:
    head = ("run", "system", "steps", "best step", "parameters", "minutes", "device")
    rows: list[list[Cell]] = []
    for run in runs:
        rows.append(
            [
                run.label,
                run.system or None,
                run.result.get("steps", max((line["step"] for line in run.lines), default=0)),
                run.result.get("best_step", "not finished"),
                run.result.get("parameters"),
                run.result["wall_seconds"] / 60 if run.result else None,
                devices(run.result),
            ]
        )
    return Table(head, rows, "Minutes include compilation, validation and scoring.")


def _speed(runs: Iterable[Run]) -> list[Table]:
    """The rates of the runs, their memory, and where their time went; none without a log."""
    activities = ("step", "compiling", "data", "validating", "saving")
    head = (
        *("run", "steps/s", "tokens or examples/s", "padding, %", "TFLOP/s", "of the peak, %"),
        *("memory, GiB", "steps, % of time", "compiling, %", "waiting for data, %"),
        *("validating, %", "saving, %"),
    )

    rows: list[list[Cell]] = []
    for run in runs:
        median = functools.partial(_median, run.lines)
        memory = max((line.get("peak_memory_mib", 0.0) for line in run.lines), default=0.0)
        rows.append(
            [
                run.label,
                median("steps_per_second"),
                median(f"{run.task.unit}_per_second"),
                median("padding_fraction", 100.0),
                None if (rate := median("tflop_per_second")) is None else f"{rate:.3g}",
                median("flop_utilisation", 100.0),
                memory / 1024 or None,
                *(_share(run.lines, f"{activity}_seconds") for activity in activities),
            ]
        )

    table = Table(
        *without_empty(head, rows),
        "Rates are medians over the log. TFLOP/s are of the products and convolutions, on all "
        "devices; their peak is the vendor's, for the compute type; memory is the most that a "
        "device had in use. Shares are of the time until the last step of the log; the rest is "
        "starting.",
    )
    return [table] if len(table.head) > 1 else []


def bad_steps(runs: Iterable[Run]) -> list[Element]:
    """A line for each run with steps that were not applied."""
    texts = {run.label: not_finite(run.lines) for run in runs}
    return [f"{label}: {text}, which changed nothing." for label, text in texts.items() if text]


def _warnings(runs: Iterable[Run]) -> list[str]:
    """What the runs' scores have to be read with."""
    return [f"{run.label}: {line}." for run in runs for line in run.result.get("warnings", [])]


def _median(lines: Iterable[Mapping[str, Any]], name: str, factor: float = 1.0) -> float | None:
    values = [line[name] for line in lines if name in line]
    return factor * statistics.median(values) if values else None


def _share(lines: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """The share of an activity in the time until the last line that has it, in percent."""
    logged = [number for number, line in enumerate(lines) if name in line]
    if not logged:
        return None
    before = [line.get("wall_seconds", 0.0) for line in lines[: logged[0]]]  # of an earlier version
    seconds = lines[logged[-1]]["wall_seconds"] - max(before, default=0.0)
    return 100 * sum(lines[number][name] for number in logged) / seconds if seconds else None


def _settings(runs: Sequence[Run]) -> list[Element]:
    """The fields in which runs of one family differ, and the command of each run."""
    names = dict.fromkeys(name for run in runs for name in run.fields)
    texts = {name: [str(run.fields.get(name, "-")) for run in runs] for name in names}
    differing = {name: values for name, values in texts.items() if len({*values}) > 1}
    columns = {"run": [run.label for run in runs], **differing}
    table = [[name, *values] for name, values in columns.items()]
    if len(differing) > len(runs):  # prefer a long table to a wide one
        table[0][0] = "field"
    else:
        table = [[*row] for row in zip(*table, strict=True)]
    commands = [f"{r.label}: {r.result['command']}" for r in runs if r.result.get("command")]
    return [*([Table(table[0], table[1:])] if differing else []), *commands]


def scores(runs: Sequence[Run]) -> list[Table]:
    """A table for each split: the runs, their settings' means over seeds, the paper's results."""
    splits = dict.fromkeys(split for run in runs for split in run.task.splits)
    return [table for split in splits if (table := _scores_of(runs, split)) is not None]


def _scores_of(runs: Sequence[Run], split: str) -> Table | None:
    scored = {run: _values(run, split) for run in runs}
    names = list(dict.fromkeys(name for values in scored.values() for name in values))
    if not names:
        return None

    # runs, and the means of settings
    rows: list[list[Cell]] = []
    for run, values in scored.items():
        intervals = evaluation_of(run, split).intervals if values else {}
        rows.append([run.label, *(_scored(values.get(n), intervals.get(n)) for n in names)])
    groups, reasons = _groups([run for run, values in scored.items() if values])
    rows += _means(groups, scored, names)

    # the paper's results, perhaps of further metrics
    paper: dict[str, dict[str, float]] = {}
    for reported in (run.task.config.paper for run in runs):
        source = f" ({reported.source})" if reported.source else ""
        for system, of_split, metric, value in reported.parsed:
            if of_split == split:
                paper.setdefault(f"the paper{source}: {system}", {})[metric] = value
    names += dict.fromkeys(n for values in paper.values() for n in values if n not in names)
    rows = [[*row, *[None] * (1 + len(names) - len(row))] for row in rows]
    rows += [[system, *(values.get(name) for name in names)] for system, values in paper.items()]

    note = (
        "In brackets 95 % intervals over the examples; ± over seeds (Student's t, one standard "
        "deviation for all settings)."
    )
    steps = {run.label: _other_step(run, split) for run, values in scored.items() if values}
    notes = [
        f"{label}: of the checkpoint of step {step}."
        for label, step in steps.items()
        if step is not None
    ]
    return Table((split, *names), rows, " ".join([note, *notes, *reasons]))


def _values(run: Run, split: str) -> Mapping[str, float]:
    """The metrics of a finished run's split as last scored, as its intervals and examples are; of
    the result without such scores."""
    final = run.result.get("metrics", {}).get(split) or {}
    if not final or split not in run.scores:
        return final
    stored = run.scores[split]
    return {name: stored.get(name, float) for name in final if stored.value.get(name) is not None}


def _other_step(run: Run, split: str) -> int | None:
    """The step of the checkpoint that was last scored; None if it is the result's."""
    if split not in run.scores:
        return None
    best = run.result.get("best_step", 0)
    step = run.scores[split].get("step", int, best)
    return None if step == best else step


def _scored(value: float | None, interval: Sequence[float] | None) -> Cell:
    if value is None or interval is None:
        return value
    return f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


def _groups(runs: Sequence[Run]) -> tuple[list[list[Run]], list[str]]:
    """The runs of each setting with several seeds, and why others have no mean: they are being
    continued, or are of different data."""
    reasons = []
    settings: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        if not run.is_finished:
            taken = run.result["steps"]
            reasons.append(f"{run.label}: is being continued after {taken} steps; in no mean.")
            continue
        by_data = settings.setdefault(run.setting, {})
        by_data.setdefault(run.data_identity, []).append(run)
    for by_data in settings.values():
        if len(by_data) > 1:
            labels = " and ".join(", ".join(r.label for r in group) for group in by_data.values())
            reasons.append(f"{labels}: of different data, hence without a mean of all.")

    def has_several_seeds(group: Sequence[Run]) -> bool:
        return len({run.fields.get(SEED) for run in group}) == len(group) > 1

    groups = [group for by_data in settings.values() for group in by_data.values()]
    return [*filter(has_several_seeds, groups)], reasons


def _means(
    several: Sequence[Sequence[Run]],
    scored: Mapping[Run, Mapping[str, float]],
    names: Sequence[str],
) -> list[list[Cell]]:
    """A row for each group of runs."""
    rows: list[list[Cell]] = [[_mean_label(group)] for group in several]

    # a mean with its interval for each metric
    for name in names:
        stored = [[scored[run].get(name) for run in group] for group in several]
        values_by_seed = [[value for value in values if value is not None] for values in stored]
        halves = iter(interval_of_means([values for values in values_by_seed if values]))
        for row, numbers in zip(rows, values_by_seed, strict=True):
            half = next(halves) if numbers else None
            row.append(None if half is None else f"{statistics.fmean(numbers):.2f} ± {half:.2f}")
    return rows


def _mean_label(group: Sequence[Run]) -> str:
    system = f"{group[0].system}, " if group[0].system else ""
    return f"{system}mean of {len(group)}: {', '.join(run.label for run in group)}"


def _learning(runs: Sequence[Run], most: int | None) -> list[Element]:
    """The curves of at most so many runs, the unfinished ones first, and a note if some lack."""
    chosen = sorted(runs, key=lambda run: bool(run.result))[:most]
    drawn = [run for run in runs if run in chosen]
    note = f"Curves of {len(drawn)} of the {len(runs)} runs, of unfinished ones first."
    charts = [*learning_curves(drawn)]
    if "nll" not in {run.task.config.train.best_metric for run in drawn}:
        charts += _drawn([_curve(drawn, "Validation loss", "step", "dev nll (nats)", "nll", "dev")])
    return [*charts, *([note] if len(drawn) < len(runs) else [])]


def learning_curves(runs: Sequence[Run]) -> list[Chart]:
    """Training loss; the metric that selects the first run's checkpoint, by steps and minutes."""
    metric = runs[0].task.config.train.best_metric
    losses = [line for run in runs for line in run.lines if "loss" in line and "split" not in line]
    unit = " (nats)" if all("nll" in line for line in losses) else ""  # not of rankings
    charts = [
        _curve(runs, "Training", "step", f"loss{unit}", "loss", None),
        _curve(runs, "Validation", "step", f"dev {metric}", metric, "dev"),
        _curve(runs, "Validation by time", "minutes", f"dev {metric}", metric, "dev"),
    ]
    return _drawn(charts)


def _drawn(charts: Sequence[Chart]) -> list[Chart]:
    """The charts with a series of more than one point."""
    return [chart for chart in charts if any(len(series.x) > 1 for series in chart.series)]


def _curve(runs: Sequence[Run], title: str, x: str, y: str, name: str, split: str | None) -> Chart:
    """A metric in the lines of a split of each run's log, by x: "step" or "minutes".

    Args:
      split: None for the lines of training.
    """
    series = []
    for run in runs:
        lines = [
            line
            for line in run.lines
            if line.get("split") == split and {name, "wall_seconds"} <= line.keys()
        ]
        positions = [line["step"] if x == "step" else line["wall_seconds"] / 60 for line in lines]
        if lines:
            series.append(Series(run.label, positions, [line[name] for line in lines]))
    few = all(len(line.x) < 30 for line in series)
    return Chart(title, x, y, series, "points" if few else "lines")


def _title(family: type[Task]) -> str:
    """The name of a task's class as a title: "Span extraction"."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", family.__name__).capitalize()
