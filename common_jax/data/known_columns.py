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
    layouts: Sequence[Layout], names: Sequence[str], place: str = "", advice: str = ""
) -> KnownColumns | None:
    """The first layout of which a table with these names has all columns.

    Args:
      place, advice: for messages; without a place no column is refused.

    Raises:
      UserError: if a field can be several of the columns.
    """
    for layout in layouts:
        at = {field: matching_numbers(columns, names) for field, columns in layout.columns.items()}
        for field, numbers in at.items():
            several = ", ".join(names[number - 1] for number in numbers)
            is_ambiguous = len(numbers) > 1 and (layout is layouts[0] or all(at.values()))
            require(
                not (place and is_ambiguous),
                f"{place}: several columns can be the {field}: {several}; {advice}",
            )
        if all(at.values()):
            return KnownColumns(layout, {field: names[at[field][0] - 1] for field in at})
    return None


def has_names(layouts: Sequence[Layout], names: Sequence[str], numbers: Mapping[str, int]) -> bool:
    """Whether a row has a layout's names at the numbers of the fields' columns, in any order."""
    at = {f: number if number > 0 else len(names) + 1 + number for f, number in numbers.items()}
    return any(
        layout.columns.keys() <= at.keys()
        and all({*at.values()} & {*matching_numbers(c, names)} for c in layout.columns.values())
        for layout in layouts
    )


def matching_numbers(columns: Sequence[str], names: Sequence[str]) -> list[int]:
    """The numbers of the names that are one of the columns."""
    return [number for number, name in enumerate(names, start=1) if name.lower() in columns]


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
