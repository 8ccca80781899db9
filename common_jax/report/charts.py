"""Renders charts with matplotlib, as SVG and PNG."""

import contextlib
import io
import itertools
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common_jax.report.document import Chart, Heatmap, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette for colour-blind readers; markers and dashes distinguish lines as well
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vP*X"
_DASHES = ("-", "--", "-.", ":")
_SIZE = (4.6, 3.2)  # inches, for text at least 10 pixels high on a phone
_ROW = 0.17  # of a legend or a caption, inches
_LONGEST = 56  # letters of a name
_LETTERS = 74  # of a caption, in the width of a chart
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "svg.fonttype": "none",  # text instead of paths: small, sharp, searchable
    "font.family": "sans-serif",
    "figure.dpi": 160,
}


def draw(charts: Sequence[Chart] | Heatmap, caption: str = "") -> "Figure":
    """The charts side by side above a caption, or a heatmap, without their notes.

    Raises:
      ValueError: for no charts, or one without a point.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if isinstance(charts, Heatmap):
        with matplotlib.rc_context(_STYLE):
            return _heatmap(charts)
    if not charts or not all(chart.series and all(s.x for s in chart.series) for chart in charts):
        raise ValueError("nothing to draw")
    lines = textwrap.wrap(caption, round(_LETTERS * len(charts)))
    rows = max(sum(bool(s.name) for s in chart.series) for chart in charts) + len(lines)
    with matplotlib.rc_context(_STYLE):
        size = (_SIZE[0] * len(charts), _SIZE[1] + _ROW * rows)
        figure = Figure(size, layout="constrained")
        share_y = len({chart.y_label for chart in charts}) == 1
        panels = figure.subplots(1, len(charts), squeeze=False, sharey=share_y)[0]
        for axes, chart in zip(panels, charts, strict=True):
            _draw(axes, chart)
        if lines:
            figure.supxlabel(_plain("\n".join(lines)), x=0.01, ha="left", fontsize=8)
        return figure


def svg(charts: Sequence[Chart] | Heatmap, name: str, caption: str = "") -> str:
    """The charts as a self-contained `<svg>` element of its container's width; deterministic.

    Args:
      name: makes the ids inside the element unique in a page.
    """
    import matplotlib

    text = io.StringIO()
    figure = draw(charts, caption)
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}), _ignore_missing_glyphs():
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    element = text.getvalue()[text.getvalue().index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>\s*", "", element, flags=re.DOTALL)
    # ids that are the same in all pictures, such as "axes_1", are not referenced
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', _OPENING, element, count=1)


def save(charts: Sequence[Chart], stem: Path, caption: str = "") -> None:
    """Writes STEM.png and STEM.svg."""
    with _ignore_missing_glyphs():
        draw(charts, caption).savefig(stem.with_suffix(".png"))
    stem.with_suffix(".svg").write_text(svg(charts, stem.name, caption), encoding="utf-8")


@contextlib.contextmanager
def _ignore_missing_glyphs() -> Iterator[None]:
    """Suppresses matplotlib's warnings about characters that the font lacks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


_OPENING = (
    r'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    r'viewBox="\1">'
)


def _draw(axes: "Axes", chart: Chart) -> None:
    categories = _categories(chart.series)
    for number, series in enumerate(chart.series):
        x: Any = [categories[str(name)] for name in series.x] if categories else series.x
        style: Any = {"color": _COLOURS[number % len(_COLOURS)], "label": _safe(series.name)}
        halves = [float("nan") if h is None else h for h in series.half or ()] or None
        if chart.form == "bars":
            width = 0.8 / len(chart.series)
            centres = [at + (number - (len(chart.series) - 1) / 2) * width for at in x]
            axes.bar(centres, series.y, width, yerr=halves, error_kw={"linewidth": 1}, **style)
            continue
        dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
        marker = _MARKERS[number % len(_MARKERS)] if chart.form == "points" else ""
        if halves:
            axes.errorbar(x, series.y, halves, fmt=dash + marker, capsize=3, markersize=5, **style)
        else:
            axes.plot(x, series.y, dash, marker=marker, markersize=4, linewidth=1.4, **style)
        for at, dots in zip(x, series.dots or (), strict=False):
            axes.plot([at] * len(dots), dots, "o", color=style["color"], markersize=3, alpha=0.45)
    rotation: Any = {}
    if categories:
        crowded = max(map(len, categories)) > 7 or sum(map(len, categories)) > 42  # letters
        rotation = {"rotation": 30, "ha": "right"} if crowded else {}
        axes.set_xticks([*categories.values()], [*map(_safe, categories)], **rotation)
    elif chart.form == "points":
        values = sorted({value for series in chart.series for value in series.x})
        if len(values) <= 8 and all(type(value) is int for value in values):
            axes.set_xticks(values)
    if chart.zero:
        axes.axhline(0, color="#555555", linewidth=1, zorder=1)
    axes.set_axisbelow(True)
    names = {"title": chart.title, "xlabel": chart.x_label, "ylabel": chart.y_label}
    axes.set(**{name: _safe(text) for name, text in names.items()})
    if any(series.name for series in chart.series):
        below = -0.34 if rotation else -0.2
        axes.legend(loc="upper left", bbox_to_anchor=(0, below), frameon=False)


def _heatmap(picture: Heatmap) -> "Figure":
    from matplotlib.figure import Figure

    cell = max(0.2, _SIZE[0] / (len(picture.columns) + 6))  # inches
    size = cell * (len(picture.columns) + 6), cell * (len(picture.rows) + 7)
    figure = Figure(size, layout="constrained")
    axes = figure.subplots()
    axes.pcolormesh(picture.values, cmap="Blues", vmin=0, vmax=1)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    axes.grid(False)
    middles = lambda names: ([n + 0.5 for n in range(len(names))], [*map(_safe, names)])
    axes.set_xticks(*middles(picture.columns), rotation=90)
    axes.set_yticks(*middles(picture.rows))
    names = {"title": picture.title, "xlabel": picture.x_label, "ylabel": picture.y_label}
    axes.set(**{name: _safe(text) for name, text in names.items()})
    return figure


def _categories(series: Sequence[Series]) -> dict[str, int]:
    """The position of each name on a categorical axis; empty for a numeric axis."""
    names = dict.fromkeys(itertools.chain(*(one.x for one in series)))
    if all(isinstance(name, int | float) for name in names):
        return {}
    return {str(name): position for position, name in enumerate(names)}


def _safe(text: str) -> str:
    """Shortens a name and escapes it for matplotlib: no mathtext, and no leading underscore, with
    which the legend would omit it."""
    short = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"
    return _plain(f" {short}" if short.startswith("_") else short)


def _plain(text: str) -> str:
    return text.replace("$", r"\$")
