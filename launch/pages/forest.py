"""Draws a forest plot: differences with their intervals, and the paper's."""

from typing import TYPE_CHECKING, Any

from common_jax.document import Forest
from launch.pages.chart_style import COLOURS, GREY, ROW, SIZE, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INTERVAL = 0.32  # of an interval with its name, inches


def forest(picture: Forest) -> "Figure":
    """Each interval below its name, in a figure of the height that they need."""
    from matplotlib.figure import Figure

    count = len(picture.intervals)
    figure = Figure((SIZE[0], _INTERVAL * (count + 0.5) + 4 * ROW), layout="constrained")
    axes = figure.subplots()
    if picture.is_ratio:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    axes.axvline(1.0 if picture.is_ratio else 0.0, color=GREY, linewidth=1, zorder=1)

    _draw_intervals(axes, picture)
    axes.set(xlabel=shown(picture.x_label), ylim=(count - 0.5, -0.9), yticks=[])
    axes.set_title(shown(picture.title), loc="left")
    axes.spines["left"].set_visible(False)
    _name_kinds(axes, picture)
    figure.legend(loc="outside lower left", frameon=False, ncols=1)
    return figure


def _draw_intervals(axes: "Axes", picture: Forest) -> None:
    """The intervals from the top down, each with its name above it at the left edge."""
    across = axes.get_yaxis_transform()
    for line, interval in enumerate(picture.intervals):
        halves = [[interval.mean - interval.low], [interval.high - interval.mean]]
        axes.errorbar(
            [interval.mean],
            [line],
            xerr=halves,
            fmt="o",
            color=COLOURS[0],
            markerfacecolor=COLOURS[0] if interval.emphasised else "none",
            capsize=3,
            markersize=4,
        )
        if interval.marked is not None:
            axes.plot(interval.marked, line, "D", color=COLOURS[1], markersize=5, zorder=1.5)
        name = shown(interval.name)
        axes.text(0.0, line - 0.2, name, transform=across, fontsize=8, va="bottom")


def _name_kinds(axes: "Axes", picture: Forest) -> None:
    """Names the kinds of points that there are, for the legend."""
    kinds = {
        "here, with its 95 % interval": True,
        "here, by a metric that does not judge the claim": False,
    }
    for label, emphasised in kinds.items():
        if any(interval.emphasised == emphasised for interval in picture.intervals):
            face = COLOURS[0] if emphasised else "none"
            style: Any = {"color": COLOURS[0], "markerfacecolor": face, "markersize": 4}
            axes.plot([], [], "o", label=label, **style)
    if any(interval.marked is not None for interval in picture.intervals):
        axes.plot([], [], "D", color=COLOURS[1], markersize=5, label="the paper")
