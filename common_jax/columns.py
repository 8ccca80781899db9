"""The columns of a table, named in a config or on the command line."""

import itertools
import re
from collections.abc import Sequence
from typing import Literal

from common_jax.fields import require

Quotes = Literal["auto", "csv", "text"]  # how quotation marks are read


def parse_columns(
    text: str, fields: Sequence[str], optional: Sequence[str] = (), key: str = "data.columns"
) -> dict[str, int | str]:
    """The column of each field of a table (`SplitsConfig.columns`), in the fields' order.

    Args:
      key: the name of the setting, for messages.

    Raises:
      UserError: if a field that is not optional has no column, or two have the same.
    """
    if not text:
        return {}

    # FIELD=COLUMN for each field; columns without names follow the fields' order
    columns = [column.strip() for column in text.split(",")]
    if not any("=" in column for column in columns):
        columns = [f"{f}={c}" for f, c in itertools.zip_longest(fields, columns, fillvalue="")]
    pairs = [[part.strip() for part in column.partition("=")[::2]] for column in columns]
    numbered = {f: int(c) if re.fullmatch("-?[0-9]+", c) else c for f, c in pairs}

    # every needed field has a column, and no two the same
    example = ",".join(f"{field}={number}" for number, field in enumerate(fields, start=1))
    needed = {*fields} - {*optional}
    named = [field for field, _ in pairs]
    require(
        needed <= {*named} <= {*fields}
        and len({*named}) == len(named)
        and all(numbered.values())
        and len({*numbered.values()}) == len(named),
        f"{key}={text!r}: name a column for each of {', '.join(fields)}, or "
        f"number it from 1, as in {example!r}",
    )
    return {field: numbered[field] for field in fields if field in numbered}
