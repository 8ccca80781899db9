"""Charts of a sweep: the metric by each field, averaged over seeds."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from common_jax.document import Chart, Series
from common_jax.training.identity import SEED
from launch.seeds import interval_of_means
from launch.trials.status import TrialStatus
from launch.trials.trials import Trial

Point = tuple[tuple[str, Any], ...]  # a setting: each field's value, without the seed


def sweep_charts(
    trials: Sequence[Trial], statuses: Sequence[TrialStatus], metric: str
) -> list[Chart]:
    """A chart of finished trials for each field with several values, with a line for each setting
    of the other fields.

    Lines of a single point are omitted if others are longer: with zipped fields they belong to
    another field's chart.

    Args:
      metric: as in "dev.sacrebleu".
    """
    values: dict[Point, list[float]] = {}
    for trial, status in zip(trials, statuses, strict=True):
        if status.state == "finished" and metric in status.metrics:
            setting = tuple((k, v) for k, v in trial.values.items() if k != SEED)
            values.setdefault(setting, []).append(status.metrics[metric])
    halves = dict(zip(values, interval_of_means(list(values.values())), strict=True))
    fields = list(dict.fromkeys(name for setting in values for name, _ in setting))
    varied = [name for name in fields if len({dict(setting)[name] for setting in values}) > 1]
    return [_chart(field, metric, values, halves) for field in varied or fields[:1]]


def caption(charts: Sequence[Chart], findings: Mapping[str, str]) -> str:
    """Explains the marks, followed by the paper's findings about the charts' fields."""
    lines = [line for chart in charts for line in chart.series]
    sentences = []
    if any(len(dots) > 1 for line in lines for dots in line.dots or ()):
        sentences.append("Lines: means over seeds, which are the small dots.")
    if any(half is not None for line in lines for half in line.half or ()):
        sentences.append(
            "Bars: 95 % interval of the mean (Student's t, one deviation for all settings)."
        )
    return " ".join([*sentences, *(findings[c.x_label] for c in charts if c.x_label in findings)])


def _chart(
    field: str,
    metric: str,
    values: Mapping[Point, list[float]],
    halves: Mapping[Point, float | None],
) -> Chart:
    lines: dict[Point, list[Point]] = {}
    for setting in values:
        fixed = tuple(pair for pair in setting if pair[0] != field)
        lines.setdefault(fixed, []).append(setting)

    longest = max(map(len, lines.values()))
    lines = {fixed: line for fixed, line in lines.items() if len(line) > 1 or longest == 1}
    constant = set.intersection(*(set(fixed) for fixed in lines)) if len(lines) > 1 else set()

    # a series for each line
    series = []
    for fixed, line in lines.items():
        labels = [f"{_short(k)}={v}" for k, v in fixed if (k, v) not in constant]
        settings = sorted(line, key=lambda setting: _order(dict(setting)[field]))
        x = [dict(setting)[field] for setting in settings]
        numbers = all(type(value) in (int, float) for value in x)
        series.append(
            Series(
                ", ".join(labels),
                x if numbers else [str(value) for value in x],
                [statistics.fmean(values[setting]) for setting in settings],
                [halves[setting] for setting in settings],
                [values[setting] for setting in settings],
            )
        )
    return Chart(metric.replace(".", " ") + f" by {_short(field)}", field, metric, series)


def _order(value: Any) -> tuple[bool, Any]:
    return (True, value) if type(value) in (int, float) else (False, str(value))


def _short(field: str) -> str:
    return field.rpartition(".")[2]
