"""Renders charts with matplotlib, as SVG and PNG."""

import contextlib
import io
import itertools
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from common_jax.document import Chart, Forest, Heatmap, Panel, Series
from common_jax.io.paths import AnyPath

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
# Of a heatmap, in inches but for numbers of letters and of points.
_LARGEST_CELL = 0.3
_GAP = 0.1
_TITLE = 0.3
_LETTER = 0.06
_LONGEST_CELL = 12
_SMALLEST = 6.5
_LARGEST = 8
_SHADES = 20
_INTERVAL = 0.32  # of an interval of a forest plot with its name, inches
_RATES = ("accuracy", "precision_at_1", "f1", "exact_match", "sacrebleu", "chrf")  # in percent
_BELOW = 0.45  # of an axis with its label, for which `_SIZE` has room, inches
_LETTERS = 74  # of a caption, in the width of a chart
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#808080",
    "grid.alpha": 0.25,
    "svg.fonttype": "none",  # text instead of paths: small, sharp, searchable
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial"],
    "figure.dpi": 160,
}

Drawing = Sequence[Chart] | Heatmap | Forest


def draw(charts: Drawing, caption: str = "") -> "Figure":
    """The charts side by side above a caption, a heatmap or a forest plot, without their notes.

    Raises:
      ValueError: for no charts, or one without a point.
    """
    import matplotlib
    from matplotlib.figure import Figure

    if isinstance(charts, Heatmap | Forest):
        with matplotlib.rc_context(_STYLE):
            return _heatmap(charts) if isinstance(charts, Heatmap) else _forest(charts)
    if not charts or not all(chart.series and all(s.x for s in chart.series) for chart in charts):
        raise ValueError("nothing to draw")
    lines = textwrap.wrap(caption, round(_LETTERS * len(charts)))
    rows = max(sum(bool(s.name) for s in chart.series) for chart in charts) + len(lines)
    with matplotlib.rc_context(_STYLE):
        size = (_SIZE[0] * len(charts), _SIZE[1] + _ROW * rows)
        figure = Figure(size, layout="constrained")
        share_y = len({chart.y_label for chart in charts}) == 1
        panels = figure.subplots(1, len(charts), squeeze=False, sharey=share_y)[0]
        below = [_draw(axes, chart) for axes, chart in zip(panels, charts, strict=True)]
        figure.set_figheight(size[1] + max(0.0, max(below) - _BELOW))
        if lines:
            figure.supxlabel(_plain("\n".join(lines)), x=0.01, ha="left", fontsize=8)
        return figure


def svg(
    charts: Sequence[Chart] | Heatmap | Forest,
    name: str,
    caption: str = "",
    *,
    inherits: bool = False,
) -> str:
    """The charts as a self-contained `<svg>` element of its container's width; deterministic.

    Its text is text, its background transparent, and black is white where a dark page is preferred.

    Args:
      name: makes the ids inside the element unique in a page.
      inherits: whether black is instead the colour of the text around the element.
    """
    import matplotlib

    text = io.StringIO()
    figure = draw(charts, caption)
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}), _ignore_missing_glyphs():
        metadata: Any = {"Date": None, "Creator": None}
        figure.savefig(text, format="svg", metadata=metadata, transparent=True)
    element = text.getvalue()[text.getvalue().index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>\s*", "", element, flags=re.DOTALL)
    element = element.replace("stroke: #000000", "stroke: currentColor")
    element = re.sub(r' d="[^"]*"', _shortened, element)

    # ids that are the same in all pictures, such as "axes_1", are not referenced
    opening = _INHERITING if inherits else _OPENING
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, element, count=1)


def _shortened(path: re.Match[str]) -> str:
    """A path in hundredths of a point."""
    return re.sub(r"(\.\d\d)\d+", r"\1", path[0]).replace("\n", "")


def save(charts: Sequence[Chart], stem: AnyPath, caption: str = "") -> None:
    """Writes STEM.png and STEM.svg."""
    with _ignore_missing_glyphs():
        image = io.BytesIO()
        draw(charts, caption).savefig(image, format="png")
        stem.with_suffix(".png").write_bytes(image.getvalue())
    stem.with_suffix(".svg").write_text(svg(charts, stem.name, caption), encoding="utf-8")


@contextlib.contextmanager
def _ignore_missing_glyphs() -> Iterator[None]:
    """Suppresses matplotlib's warnings about characters that the font lacks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


_INHERITING = (
    r'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    r'viewBox="\1" style="fill: currentColor">'
)
_OPENING = (
    r'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    r'viewBox="\1"><style>svg { color: #1a1a1a; fill: currentColor } '
    r"@media (prefers-color-scheme: dark) { svg { color: #e6e6e6 } }</style>"
)


def _draw(axes: "Axes", chart: Chart) -> float:
    """Draws a chart, with its legend below it.

    Returns: the height of the axis with its names and label, in inches.
    """
    from matplotlib.transforms import ScaledTranslation

    categories = _categories(chart.series)

    # One colour for each series; then one dash or marker for each round of colours.
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

    # Names of categories are slanted where they would overlap; whole numbers are all shown.
    rotation: Any = {}
    if categories:
        crowded = max(map(len, categories)) > 7 or sum(map(len, categories)) > 42  # letters
        rotation = {"rotation": 30, "ha": "right"} if crowded else {}
        axes.set_xticks([*categories.values()], [*map(_safe, categories)], **rotation)
    elif chart.form == "points":
        values = sorted({value for series in chart.series for value in series.x})
        if len(values) <= 8 and all(type(value) is int for value in values):
            axes.set_xticks(values)

    # Rates in percent end at 100.
    metric = re.split(r"[ .]", chart.y_label.lower())[-1]
    largest = max(float(value) for series in chart.series for value in series.y)
    if metric in _RATES and largest <= 100 < axes.get_ylim()[1]:
        axes.set_ylim(top=100)

    # The zero line, the names, and the legend below the chart.
    if chart.zero:
        axes.axhline(0, color="#808080", linewidth=1, zorder=1)
    axes.set_axisbelow(True)
    names = {"title": chart.title, "xlabel": chart.x_label, "ylabel": chart.y_label}
    axes.set(**{name: _safe(text) for name, text in names.items()})
    figure: Any = axes.figure
    axis: Any = axes.xaxis.get_tightbbox()
    below = (axes.bbox.y0 - axis.y0) / figure.dpi
    if any(series.name for series in chart.series):
        moved = axes.transAxes + ScaledTranslation(0, -below, figure.dpi_scale_trans)
        axes.legend(loc="upper left", bbox_to_anchor=(0, 0), bbox_transform=moved, frameon=False)
    return below


def _heatmap(picture: Heatmap) -> "Figure":
    """The panels with square cells of limited size, in a figure of the height that they need.

    Constrained layout does neither: it fits panels into a given height, and collapses those that
    are too narrow for their labels.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows, columns = (
        [_cell_label(name) for name in names] for names in (picture.rows, picture.columns)
    )
    left, below = (_LETTER * max(map(len, names)) + 0.3 for names in (rows, columns))

    # The size of a cell, as large as its column of panels allows, and the height of the figure.
    across = picture.across
    down = -(-len(picture.panels) // picture.across)
    panel_width = (_SIZE[0] - left) / across - _GAP
    cell = min(_LARGEST_CELL, panel_width / len(columns))
    size = cell * len(columns), cell * len(rows)
    titled = _ROW if any(panel and panel.title for panel in picture.panels) else 0.0
    step = size[1] + titled + _GAP
    names = [*dict.fromkeys(o.name for p in picture.panels if p for o in p.outlines)]
    height = _TITLE + step * down + below + _ROW * (1 + len(names))
    figure = Figure((_SIZE[0], height))
    scale = max(value for p in picture.panels if p for row in p.values for value in row) or 1.0

    # The panels, row by row; words stand only at the left and lower edges.
    for at, panel in enumerate(picture.panels):
        if panel is None:
            continue
        x = left + (at % across) * (size[0] + _GAP)
        top = _TITLE + titled + at // across * step
        bounds = (x / _SIZE[0], 1 - (top + size[1]) / height, size[0] / _SIZE[0], size[1] / height)
        axes = figure.add_axes(bounds)
        _draw_panel(axes, panel, scale, [_COLOURS[1 + names.index(o.name)] for o in panel.outlines])
        points = min(_LARGEST, max(_SMALLEST, 72 * cell))
        thin = max(1, round(_SMALLEST / 72 / cell))  # for labels that do not overlap
        lower = picture.panels[at + across : at + across + 1]
        for axis, labels, edge in (
            (axes.xaxis, columns, not any(lower)),
            (axes.yaxis, rows, at % across == 0 or picture.panels[at - 1] is None),
        ):
            axis.set_ticks(
                [n + 0.5 for n in range(0, len(labels), thin)],
                [*map(_plain, labels[::thin])] if edge else [],
                fontsize=points,
            )
        axes.tick_params("x", rotation=90)
        axes.tick_params(length=0, pad=2)

    # Title, labels and legend around them, in inches from the upper left.
    def write(x: float, y: float, text: str, **style: Any) -> None:
        figure.text(x / _SIZE[0], 1 - y / height, text, **style)

    write(0.05, 0.05, _safe(picture.title), va="top", fontsize=_STYLE["axes.titlesize"])
    middle = _TITLE + step * down / 2
    write(0.05, middle, _safe(picture.y_label), rotation=90, va="center")
    bottom = height - _ROW * (1 + len(names))
    write(left, bottom, _safe(picture.x_label), va="bottom")
    write(
        _SIZE[0] - 0.05,
        bottom,
        f"shade: square root; largest {scale:.2f}",
        va="bottom",
        ha="right",
        fontsize=8,
    )
    dashes: Any = _DASHES
    lines = [
        Line2D([], [], color=colour, linestyle=dash, label=_safe(name))
        for name, colour, dash in zip(names, _COLOURS[1:], dashes, strict=False)
    ]
    if lines:
        figure.legend(handles=lines, loc="lower left", frameon=False, borderaxespad=0.2)
    return figure


def _forest(picture: Forest) -> "Figure":
    """Each interval below its name, in a figure of the height that they need."""
    from matplotlib.figure import Figure

    count = len(picture.intervals)
    figure = Figure((_SIZE[0], _INTERVAL * (count + 0.5) + 4 * _ROW), layout="constrained")
    axes = figure.subplots()
    if picture.is_ratio:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    axes.axvline(1.0 if picture.is_ratio else 0.0, color="#808080", linewidth=1, zorder=1)

    # Intervals from the top down, each with its name above it at the left edge.
    across = axes.get_yaxis_transform()
    for line, interval in enumerate(picture.intervals):
        halves = [[interval.mean - interval.low], [interval.high - interval.mean]]
        axes.errorbar(
            [interval.mean],
            [line],
            xerr=halves,
            fmt="o",
            color=_COLOURS[0],
            markerfacecolor=_COLOURS[0] if interval.emphasised else "none",
            capsize=3,
            markersize=4,
        )
        if interval.marked is not None:
            axes.plot(interval.marked, line, "D", color=_COLOURS[1], markersize=5, zorder=1.5)
        name = _safe(interval.name)
        axes.text(0.0, line - 0.2, name, transform=across, fontsize=8, va="bottom")
    axes.set(xlabel=_safe(picture.x_label), ylim=(count - 0.5, -0.9), yticks=[])
    axes.set_title(_safe(picture.title), loc="left")
    axes.spines["left"].set_visible(False)

    # A legend of the kinds of points that are there.
    kinds = {
        "here, with its 95 % interval": True,
        "here, by a metric that does not judge the claim": False,
    }
    for label, emphasised in kinds.items():
        if any(interval.emphasised == emphasised for interval in picture.intervals):
            face = _COLOURS[0] if emphasised else "none"
            style: Any = {"color": _COLOURS[0], "markerfacecolor": face, "markersize": 4}
            axes.plot([], [], "o", label=label, **style)
    if any(interval.marked is not None for interval in picture.intervals):
        axes.plot([], [], "D", color=_COLOURS[1], markersize=5, label="the paper")
    figure.legend(loc="outside lower left", frameon=False, ncols=1)
    return figure


def _draw_panel(axes: "Axes", panel: Panel, scale: float, colours: Sequence[str]) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Shape

    def square(x: int, y: int) -> Shape:
        return Shape([(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1), (x, y)])

    # The cells of each shade are one path, for a small file.
    cells: dict[int, list[Any]] = {}
    for y, row in enumerate(panel.values):
        for x, value in enumerate(row):
            cells.setdefault(round(_SHADES * math.sqrt(value / scale)), []).append(square(x, y))
    for level in sorted(cells.keys() - {0}):
        shape = Shape.make_compound_path(*cells[level])
        shade = (_COLOURS[0], level / _SHADES)
        axes.add_patch(PathPatch(shape, facecolor=shade, edgecolor="none"))

    # An outline goes down the right ends of its spans, and up the left ones.
    for outline, colour, dash in zip(panel.outlines, colours, _DASHES, strict=False):
        bounds = [(outline.top + n, *span) for n, span in enumerate(outline.spans)]
        right = [(last + 1, y + end) for y, _, last in bounds for end in (0, 1)]
        left = [(first, y + end) for y, first, _ in reversed(bounds) for end in (1, 0)]
        axes.plot(
            *zip(*right, *left, right[0], strict=True),
            dash,
            color=colour,
            linewidth=1.2,
            clip_on=False,
        )

    axes.set(xlim=(0, len(panel.values[0])), ylim=(len(panel.values), 0))
    axes.spines[:].set(visible=True, color="#808080", linewidth=0.6)
    axes.grid(False)
    if panel.title:
        axes.set_title(_safe(panel.title), fontsize=8, pad=2, loc="left")


def _cell_label(name: str) -> str:
    return name if len(name) <= _LONGEST_CELL else f"{name[: _LONGEST_CELL - 1]}…"


def _categories(series: Sequence[Series]) -> dict[str, int]:
    """The position of each name on a categorical axis; empty for a numeric axis."""
    names = dict.fromkeys(itertools.chain(*(s.x for s in series)))
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
