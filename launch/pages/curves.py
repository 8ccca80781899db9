"""Learning curves of runs, from their logs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from common_jax.document import Chart, Series


class Logged(Protocol):
    """A run with a log.

    Attributes:
      label: its name.
      lines: as of `RunFolder.metrics`.
    """

    @property
    def label(self) -> str: ...

    @property
    def lines(self) -> Sequence[Mapping[str, Any]]: ...


def task_title(name: str) -> str:
    """The name of a task's class as a title: "Span extraction"."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


def learning_curves(runs: Sequence[Logged], metric: str) -> list[Chart]:
    """Training loss; the metric, which selects the checkpoint, by steps and by minutes; the loss on
    dev."""

    def of_dev(line):
        return line.get("split") == "dev"

    charts = [
        _curve("Training", "step", "loss (nats)", runs, "loss", lambda line: "split" not in line),
        _curve("Validation", "step", f"dev {metric}", runs, metric, of_dev),
        _curve("Validation by time", "minutes", f"dev {metric}", runs, metric, of_dev),
    ]
    if metric != "nll":
        charts.append(_curve("Validation loss", "step", "dev nll (nats)", runs, "nll", of_dev))
    return [chart for chart in charts if any(len(series.x) > 1 for series in chart.series)]


def _curve(title: str, x: str, y: str, runs: Sequence[Logged], name: str, selected: Any) -> Chart:
    """The metric `name` in the selected lines of each run's log, by x: "step" or "minutes"."""

    def position(line):
        return line["step"] if x == "step" else line["wall_seconds"] / 60

    series = []
    for run in runs:
        required = {name, "wall_seconds"}
        lines = [line for line in run.lines if selected(line) and required <= line.keys()]
        if lines:
            values = [line[name] for line in lines]
            series.append(Series(run.label, [position(line) for line in lines], values))
    few = all(len(line.x) < 30 for line in series)
    return Chart(title, x, y, series, "points" if few else "lines")
