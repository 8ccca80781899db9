"""The format of a table, by the ending of its name or, without a known one, by its content."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from common_jax.errors import UserError
from common_jax.io.files import ending, read_raw_lines, reading
from common_jax.io.json_files import json_form

Format = Literal["parquet", "jsonl", "json", "csv", "lines"]  # json: a list; lines: with separators
ENDINGS: dict[str, Format] = {
    **{"parquet": "parquet", "jsonl": "jsonl", "ndjson": "jsonl", "json": "json"},
    **{"csv": "csv", "tsv": "lines"},
}
_FIRST = 10  # lines by which the format of a file without a known ending is detected
_PARQUET_MAGIC = b"PAR1"


def format_of(path: Path, separator: str) -> Format:
    """The format of a table.

    Args:
      separator: of columns; tables without a known ending are split at it, if it is not a tab.

    Raises:
      UserError: for JSON of another form than its ending says.
    """
    format = ENDINGS.get(ending(path))
    if format == "json" and json_form(path) == "array":
        return "json"
    if format in ("json", "jsonl"):
        _require_lines(path)
        return "jsonl"
    if format == "parquet":
        return format
    if format == "csv" and len(separator) == 1:
        return "csv"
    return "lines" if format or separator != "\t" else _format_of_content(path)


def _format_of_content(path: Path) -> Format:
    with reading(path) as file:
        if file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC:
            return "parquet"
    lines = list(itertools.islice(_filled_lines(path), _FIRST))
    first = lines[0] if lines else b""
    if _is_list(first):
        return "json"
    if first.startswith(b"{") and _is_object(first):
        return "jsonl"
    has_tabs, splits = any(b"\t" in line for line in lines), b"," in first or b";" in first
    return "csv" if splits and not has_tabs else "lines"


def _require_lines(path: Path) -> None:
    """Raises UserError if a file of JSON lines has a list, or an object over several lines."""
    first = next(_filled_lines(path), b"")
    if first == b"{":
        raise UserError(
            f"{path}:1: an object over several lines where an object a line, or a list of objects, "
            "is needed"
        )
    if _is_list(first):
        raise UserError(
            f"{path}:1: a list where JSON lines, an object a line, are needed; name it .json"
        )


def _filled_lines(path: Path) -> Iterator[bytes]:
    return (line.strip() for line in read_raw_lines(path) if line.strip())


def _is_list(line: bytes) -> bool:
    """Whether a first line starts a list of objects."""
    return line == b"[" or line.startswith(b"[{")


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False
