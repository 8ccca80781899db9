"""Draws a chart of lines, points or bars in its axes."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from common_jax.document import Chart, Series
from launch.pages.chart_style import COLOURS, DASHES, GREY, MARKERS, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RATES = ("accuracy", "precision_at_1", "f1", "exact_match", "sacrebleu", "chrf")  # in percent
_LONGEST_LEVEL = 7  # letters of a category's name that is not slanted
_LONGEST_LINE = 42  # letters of all


def draw_chart(axes: "Axes", chart: Chart) -> float:
    """Draws a chart, with its legend below it.

    Returns: the height of the axis with its names and label, in inches.
    """
    categories = _categories(chart.series)
    for number, series in enumerate(chart.series):
        if chart.form == "bars":
            _draw_bars(axes, series, number, len(chart.series), categories)
        else:
            _draw_line(axes, series, number, chart.form == "points", categories)
    _set_ticks(axes, chart, categories)

    # Rates in percent end at 100.
    metric = re.split(r"[ .]", chart.y_label.lower())[-1]
    largest = max(float(value) for series in chart.series for value in series.y)
    if metric in _RATES and largest <= 100 < axes.get_ylim()[1]:
        axes.set_ylim(top=100)

    # The zero line and the names.
    if chart.zero:
        axes.axhline(0, color=GREY, linewidth=1, zorder=1)
    axes.set_axisbelow(True)
    names = {"title": chart.title, "xlabel": chart.x_label, "ylabel": chart.y_label}
    axes.set(**{name: shown(text) for name, text in names.items()})
    return _add_legend(axes, any(series.name for series in chart.series))


def _draw_bars(
    axes: "Axes", series: Series, number: int, count: int, categories: Mapping[str, int]
) -> None:
    """The bars of one of `count` series, beside those of the others."""
    width = 0.8 / count
    positions = _positions(series, categories)
    centres = [at + (number - (count - 1) / 2) * width for at in positions]
    style: Any = {"color": COLOURS[number % len(COLOURS)], "label": shown(series.name)}
    error: Any = {"yerr": _halves(series), "error_kw": {"linewidth": 1}}
    axes.bar(centres, series.y, width, **error, **style)


def _draw_line(
    axes: "Axes", series: Series, number: int, has_points: bool, categories: Mapping[str, int]
) -> None:
    """A line in a colour for each series, then in a dash or marker for each round of colours."""
    x = _positions(series, categories)
    style: Any = {"color": COLOURS[number % len(COLOURS)], "label": shown(series.name)}
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    marker = MARKERS[number % len(MARKERS)] if has_points else ""
    if halves := _halves(series):
        axes.errorbar(x, series.y, halves, fmt=dash + marker, capsize=3, markersize=5, **style)
    else:
        axes.plot(x, series.y, dash, marker=marker, markersize=4, linewidth=1.4, **style)
    for at, dots in zip(x, series.dots or (), strict=False):
        axes.plot([at] * len(dots), dots, "o", color=style["color"], markersize=3, alpha=0.45)


def _set_ticks(axes: "Axes", chart: Chart, categories: Mapping[str, int]) -> None:
    """Names of categories are slanted where they would overlap; whole numbers are all shown."""
    if categories:
        letters = [*map(len, categories)]
        is_crowded = max(letters) > _LONGEST_LEVEL or sum(letters) > _LONGEST_LINE
        rotation: Any = {"rotation": 30, "ha": "right"} if is_crowded else {}
        axes.set_xticks([*categories.values()], [*map(shown, categories)], **rotation)
    elif chart.form == "points":
        values = sorted({value for series in chart.series for value in series.x})
        if len(values) <= 8 and all(type(value) is int for value in values):
            axes.set_xticks(values)


def _add_legend(axes: "Axes", has_names: bool) -> float:
    """Adds the legend below the chart; returns the height of the axis, in inches."""
    from matplotlib.transforms import ScaledTranslation

    figure: Any = axes.figure
    axis: Any = axes.xaxis.get_tightbbox()
    below = (axes.bbox.y0 - axis.y0) / figure.dpi
    if has_names:
        moved = axes.transAxes + ScaledTranslation(0, -below, figure.dpi_scale_trans)
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=moved, frameon=False)
    return below


def _positions(series: Series, categories: Mapping[str, int]) -> Sequence[Any]:
    """The positions of a series on the horizontal axis."""
    return [categories[str(name)] for name in series.x] if categories else series.x


def _halves(series: Series) -> list[float] | None:
    """Half the width of each interval; None without intervals."""
    return [float("nan") if half is None else half for half in series.half or ()] or None


def _categories(series: Sequence[Series]) -> dict[str, int]:
    """The position of each name on a categorical axis; empty for a numeric axis."""
    names = dict.fromkeys(itertools.chain(*(s.x for s in series)))
    if all(isinstance(name, int | float) for name in names):
        return {}
    return {str(name): position for position, name in enumerate(names)}
