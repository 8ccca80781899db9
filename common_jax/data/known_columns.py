"""Columns that are known by their names, of one of several layouts."""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from common_jax.data.layouts import Layout
from common_jax.fields import require

_NAME = re.compile(r"[a-z][\w-]*", re.ASCII | re.IGNORECASE)

_log = logging.getLogger(__name__)


class KnownColumns(NamedTuple):
    """A layout, and the table's name of the column of each of its fields."""

    layout: Layout
    columns: dict[str, str]


def known_columns(
    layouts: Sequence[Layout], names: Sequence[str], place: str, advice: str
) -> KnownColumns | None:
    """The first layout of which a table with these names has all columns.

    Args:
      place, advice: for messages.

    Raises:
      UserError: if a field can be several of the columns.
    """
    for layout in layouts:
        at = {field: matching_names(columns, names) for field, columns in layout.columns.items()}
        if not all(at.values()):
            continue
        for field, found in at.items():
            several = f"{place}: several columns can be the {field}: {', '.join(found)}; {advice}"
            require(len(found) == 1, several)
        return KnownColumns(layout, {field: found[0] for field, found in at.items()})
    return None


def has_names(layouts: Sequence[Layout], names: Sequence[str]) -> bool:
    """Whether names have a column for each field of a layout."""
    return any(
        all(matching_names(columns, names) for columns in layout.columns.values())
        for layout in layouts
    )


def matching_names(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names that are one of the columns, which are in lower case."""
    return [name for name in names if name.lower() in columns]


def optional_columns(
    optional: Mapping[str, Sequence[str]], fields: Mapping[str, Any], names: Sequence[str]
) -> dict[str, str]:
    """The column of each optional field that the table has and `fields` does not."""
    lower = {name.lower(): name for name in reversed(names)}
    return {
        field: next(lower[column] for column in columns if column in lower)
        for field, columns in optional.items()
        if field not in fields and any(column in lower for column in columns)
    }


def log_columns(path: Path, layout: str, chosen: Mapping[str, str], names: Sequence[str]) -> None:
    """Logs which of a table's columns are read.

    Args:
      layout: the known one; "" without.
      chosen: the column of each field.
    """
    roots = {name if name in names else name.split(".")[0] for name in chosen.values()}
    pairs = ", ".join(f"{field} = {column}" for field, column in chosen.items())
    left_out = ", ".join(name for name in names if name not in roots)[:200]
    _log.info(
        "%s: %s%s%s",
        *(path, f"columns as in {layout}: " if layout else "", pairs),
        f"; not read: {left_out}" if left_out else "",
    )


def are_names(cells: Sequence[str]) -> bool:
    """Whether all cells could be names of a header."""
    return all(_NAME.fullmatch(cell.strip()) for cell in cells)
