"""What a report is made of, before it is a page: text, tables and charts in sections."""

import dataclasses
from collections.abc import Sequence
from typing import Literal

Cell = str | int | float | None


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows under their names.

    Attributes:
      head: the columns' names, that of the rows' names first.
      rows: floats are shown with two decimals, None as a dash.
      note: what a reader must know of it.
      shaded: whether cells are the darker the larger their share of the row.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    shaded: bool = False


@dataclasses.dataclass(frozen=True)
class Series:
    """One line, or one colour of bars.

    Attributes:
      name: in the legend; "" for a chart's only one.
      x: where; text for places without an order.
      y: how much.
      half: half the width of the interval of each y, None for unknown.
      dots: what each y is the mean of.
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
      title, x_label, y_label: what is seen.
      series: at least one, none of them empty.
      form: lines of points, lines alone, or bars.
      note: what a reader must know of it.
      zero: whether a line marks zero, for differences.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    form: Literal["points", "lines", "bars"] = "points"
    note: str = ""
    zero: bool = False


Part = str | Table | Chart


@dataclasses.dataclass(frozen=True)
class Section:
    """Parts under a heading; a text is a paragraph."""

    title: str
    parts: Sequence[Part]


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
