"""Draws a heatmap: panels of cells, with outlines around some of them.

Constrained layout fits panels into a given height, and collapses those that are too narrow for
their labels; here cells are square and of limited size, and the figure has the height that they
need.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from common_jax.document import Heatmap, Panel
from launch.pages.chart_style import COLOURS, DASHES, GREY, ROW, SIZE, STYLE, escaped, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches.
_LARGEST_CELL = 0.3
_GAP = 0.1  # between panels
_TITLE = 0.3  # height of the title
_LETTER = 0.06  # width of a letter of a label
_MARGIN = 0.3  # of labels
# Points.
_SMALLEST = 6.5
_LARGEST = 8
_LONGEST_LABEL = 12  # letters
_SHADES = 20


class _Layout(NamedTuple):
    """Where the parts of a heatmap are, in inches from the upper left.

    Attributes:
      rows, columns: the labels of the cells.
      outlines: the names of the outlines.
      across, down: the number of panels in a row and in a column.
      cell: the side of a cell.
      width, height: of a panel.
      left: the left edge of the first panel.
      first: its upper edge.
      step: from the upper edge of a panel to that of the one below.
      figure_height: the height of the figure.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    outlines: Sequence[str]
    across: int
    down: int
    cell: float
    width: float
    height: float
    left: float
    first: float
    step: float
    figure_height: float

    def bounds(self, at: int) -> tuple[float, float, float, float]:
        """The left and lower edge, width and height of a panel, in shares of the figure."""
        x = self.left + (at % self.across) * (self.width + _GAP)
        top = self.first + at // self.across * self.step
        lower = 1 - (top + self.height) / self.figure_height
        return x / SIZE[0], lower, self.width / SIZE[0], self.height / self.figure_height


def heatmap(picture: Heatmap) -> "Figure":
    """The panels, row by row, with the title, labels and a legend around them."""
    from matplotlib.figure import Figure

    layout = _layout(picture)
    figure = Figure((SIZE[0], layout.figure_height))
    scale = max(value for p in picture.panels if p for row in p.values for value in row) or 1.0
    for at, panel in enumerate(picture.panels):
        if panel is not None:
            axes = figure.add_axes(layout.bounds(at))
            colours = [COLOURS[1 + layout.outlines.index(o.name)] for o in panel.outlines]
            _draw_panel(axes, panel, scale, colours)
            _label_cells(axes, picture, layout, at)
    _write_around(figure, picture, layout, scale)
    _add_legend(figure, layout.outlines)
    return figure


def _layout(picture: Heatmap) -> _Layout:
    """A cell is as large as its column of panels allows."""
    rows, columns = (
        [_cell_label(name) for name in names] for names in (picture.rows, picture.columns)
    )
    left, below = (_LETTER * max(map(len, names)) + _MARGIN for names in (rows, columns))
    across = picture.across
    down = -(-len(picture.panels) // across)
    panel_width = (SIZE[0] - left) / across - _GAP
    cell = min(_LARGEST_CELL, panel_width / len(columns))
    titled = ROW if any(panel and panel.title for panel in picture.panels) else 0.0
    step = cell * len(rows) + titled + _GAP
    outlines = [*dict.fromkeys(o.name for p in picture.panels if p for o in p.outlines)]
    return _Layout(
        rows=rows,
        columns=columns,
        outlines=outlines,
        across=across,
        down=down,
        cell=cell,
        width=cell * len(columns),
        height=cell * len(rows),
        left=left,
        first=_TITLE + titled,
        step=step,
        figure_height=_TITLE + step * down + below + ROW * (1 + len(outlines)),
    )


def _draw_panel(axes: "Axes", panel: Panel, scale: float, colours: Sequence[str]) -> None:
    """The cells of a panel, shaded by the square root of their share of `scale`; its outlines."""
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
        shade = (COLOURS[0], level / _SHADES)
        axes.add_patch(PathPatch(shape, facecolor=shade, edgecolor="none"))

    # An outline goes down the right ends of its spans, and up the left ones.
    for outline, colour, dash in zip(panel.outlines, colours, DASHES, strict=False):
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
    axes.spines[:].set(visible=True, color=GREY, linewidth=0.6)
    axes.grid(False)
    if panel.title:
        axes.set_title(shown(panel.title), fontsize=8, pad=2, loc="left")


def _label_cells(axes: "Axes", picture: Heatmap, layout: _Layout, at: int) -> None:
    """Labels the cells of a panel if it is at the left or lower edge."""
    points = min(_LARGEST, max(_SMALLEST, 72 * layout.cell))
    thin = max(1, round(_SMALLEST / 72 / layout.cell))  # for labels that do not overlap
    lower = picture.panels[at + layout.across : at + layout.across + 1]
    is_first = at % layout.across == 0 or picture.panels[at - 1] is None
    for axis, labels, is_edge in (
        (axes.xaxis, layout.columns, not any(lower)),
        (axes.yaxis, layout.rows, is_first),
    ):
        centres = [n + 0.5 for n in range(0, len(labels), thin)]
        texts = [*map(escaped, labels[::thin])] if is_edge else []
        axis.set_ticks(centres, texts, fontsize=points)
    axes.tick_params("x", rotation=90)
    axes.tick_params(length=0, pad=2)


def _write_around(figure: "Figure", picture: Heatmap, layout: _Layout, scale: float) -> None:
    """Writes the title, the names of the axes, and the largest value."""

    def write(x: float, y: float, text: str, **style: Any) -> None:
        figure.text(x / SIZE[0], 1 - y / layout.figure_height, text, **style)

    write(0.05, 0.05, shown(picture.title), va="top", fontsize=STYLE["axes.titlesize"])
    middle = _TITLE + layout.step * layout.down / 2
    write(0.05, middle, shown(picture.y_label), rotation=90, va="center")
    bottom = layout.figure_height - ROW * (1 + len(layout.outlines))
    write(layout.left, bottom, shown(picture.x_label), va="bottom")
    largest = f"shade: square root; largest {scale:.2f}"
    write(SIZE[0] - 0.05, bottom, largest, va="bottom", ha="right", fontsize=8)


def _add_legend(figure: "Figure", outlines: Sequence[str]) -> None:
    """Adds the names of the outlines."""
    from matplotlib.lines import Line2D

    dashes: Any = DASHES
    lines = [
        Line2D([], [], color=colour, linestyle=dash, label=shown(name))
        for name, colour, dash in zip(outlines, COLOURS[1:], dashes, strict=False)
    ]
    if lines:
        figure.legend(handles=lines, loc="lower left", frameon=False, borderaxespad=0.2)


def _cell_label(name: str) -> str:
    """A name of limited length."""
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"
