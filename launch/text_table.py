"""Aligned tables of values, as plain text."""

from typing import Any

Row = dict[str, Any]


def table(rows: list[Row]) -> str:
    """An aligned table of all columns, with blank lines between groups of rows of the first."""
    names = [*dict.fromkeys(name for row in rows for name in row)]
    cells = [names, *([_cell(row.get(name)) for name in names] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    grouped = len({row[0] for row in cells}) < len(cells)
    for before, row in zip([cells[0], *cells], cells, strict=False):
        if grouped and row[0] != before[0]:
            lines.append("")
        lines.append("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)))
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
