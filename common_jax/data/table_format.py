"""The format of a table, by the ending of its name."""

from pathlib import Path
from typing import Literal

from common_jax.io.files import ending, reading
from common_jax.io.json_files import filled_lines

Format = Literal["parquet", "jsonl", "json", "csv", "lines"]  # json: a list; lines: with separators
ENDINGS: dict[str, Format] = {
    "parquet": "parquet",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "json",
    "csv": "csv",
    "tsv": "lines",
}
_PARQUET_MAGIC = b"PAR1"


def format_of(path: Path, separator: str = "\t") -> Format:
    """The format of a table; one without a known ending is parquet by its first bytes, or lines.

    Args:
      separator: of columns; CSV is split at one of several characters as lines are.
    """
    format = ENDINGS.get(ending(path))
    if format in ("json", "jsonl"):
        return "json" if next(filled_lines(path), b"").startswith(b"[") else "jsonl"
    if format == "csv" and len(separator) > 1:
        return "lines"
    if format is None and separator == "\t":
        with reading(path) as file:
            is_parquet = file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
        return "parquet" if is_parquet else "lines"
    return format or "lines"
