"""Elements of a report, independent of its format: text, tables and charts in sections."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal

Cell = str | int | float | None


@dataclasses.dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
      head: the names of the columns.
      rows: floats have two decimals, None is a dash.
      shaded: whether cells are shaded by their share of the row's sum.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    shaded: bool = False


@dataclasses.dataclass(frozen=True)
class Series:
    """One line, or one colour of bars.

    Attributes:
      name: in the legend; "" for the only series of a chart.
      x: positions; text for a categorical axis.
      half: half the width of the interval of each y, None if unknown.
      dots: the values of which each y is the mean.
    """

    name: str
    x: Sequence[int | float] | Sequence[str]
    y: Sequence[int | float]
    half: Sequence[float | None] | None = None
    dots: Sequence[Sequence[float]] | None = None


@dataclasses.dataclass(frozen=True)
class Chart:
    """Series over one pair of axes.

    Attributes:
      series: at least one, none of them empty.
      form: lines with points, lines without, or bars.
      zero: whether a line marks zero, for differences.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    form: Literal["points", "lines", "bars"] = "points"
    note: str = ""
    zero: bool = False


@dataclasses.dataclass(frozen=True)
class Outline:
    """The border of a region of a matrix: of consecutive rows, in each a range of columns.

    Attributes:
      name: in the legend.
      spans: the first and the last column of each row.
      top: the first row.
    """

    name: str
    spans: Sequence[tuple[int, int]]
    top: int = 0


@dataclasses.dataclass(frozen=True)
class Panel:
    """A matrix [rows, columns] of numbers of at least 0, with its title and outlines."""

    title: str
    values: Sequence[Sequence[float]]
    outlines: Sequence[Outline] = ()


@dataclasses.dataclass(frozen=True)
class Heatmap:
    """Matrices with the same rows and columns as shades, from none for 0 to the darkest for the
    largest number of all.

    Attributes:
      panels: at least one; None is an empty place.
      across: number of panels side by side.
    """

    title: str
    x_label: str
    y_label: str
    rows: Sequence[str]
    columns: Sequence[str]
    panels: Sequence[Panel | None]
    across: int = 1
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Interval:
    """A line of a forest plot: a difference, or a ratio, with its interval.

    Attributes:
      marked: a number to compare it with, None if there is none.
      emphasised: whether its dot is filled.
    """

    name: str
    mean: float
    low: float
    high: float
    marked: float | None = None
    emphasised: bool = True


@dataclasses.dataclass(frozen=True)
class Forest:
    """Intervals below each other, beside a line at no difference.

    Attributes:
      intervals: at least one.
      is_ratio: whether the numbers are ratios above 0, on a logarithmic axis; no difference is 1.
    """

    title: str
    x_label: str
    intervals: Sequence[Interval]
    is_ratio: bool = False
    note: str = ""
    y_label: str = "claim"


Picture = Chart | Heatmap | Forest
Element = str | Table | Picture


@dataclasses.dataclass(frozen=True)
class Section:
    """Elements under a heading; a text is a paragraph."""

    title: str
    elements: Sequence[Element]


@dataclasses.dataclass(frozen=True)
class Report:
    """Sections under a title."""

    title: str
    sections: Sequence[Section]


def shown(cell: Cell) -> str:
    """A cell as text."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def without_empty(
    head: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> tuple[list[str], list[list[Cell]]]:
    """A table without the columns that have no value."""
    kept = [n for n in range(len(head)) if any(row[n] is not None for row in rows)]
    return [head[n] for n in kept], [[row[n] for n in kept] for row in rows]


def markdown_table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table of cells that are Markdown."""
    cells = [list(head), *(list(row) for row in rows)]
    cells.insert(1, ["---"] * len(cells[0]))
    escaped = ([str(cell).replace("|", "\\|") for cell in row] for row in cells)
    return "\n".join("| " + " | ".join(row) + " |" for row in escaped)
