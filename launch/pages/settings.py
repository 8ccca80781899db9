"""The settings in which runs differ."""

from collections.abc import Mapping
from typing import Any

from common_jax.document import Cell, Table


def differing_settings(fields: Mapping[str, Mapping[str, Any]]) -> Table | None:
    """A table of the fields in which runs differ; None for no such fields.

    Args:
      fields: of each run, by its label.
    """
    names = list(dict.fromkeys(name for values in fields.values() for name in values))

    def text(values, name):
        return str(values.get(name, "-"))

    differing = [name for name in names if len({text(v, name) for v in fields.values()}) > 1]
    if not differing:
        return None
    table: list[list[Cell]] = [["run", *differing]]
    table += [
        [label, *(text(values, name) for name in differing)] for label, values in fields.items()
    ]
    if len(differing) > len(fields):  # prefer a long table to a wide one
        table = [list(column) for column in zip(*table, strict=True)]
        table[0][0] = "field"
    return Table([*map(str, table[0])], table[1:])
