"""Rows of parquet and JSON files, as objects with their locations, and their columns."""

import contextlib
import dataclasses
import functools
import io
import itertools
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from common_jax.bad_examples import BadExamples
from common_jax.data.table_format import Format
from common_jax.errors import UserError
from common_jax.io.files import reading
from common_jax.io.json_files import Node, read_json_array, read_json_lines

STARTS = "answer_start"  # the column beside texts of answers

_SAMPLE = 100  # rows from which the columns of a JSON file are known
_BATCH = 4096  # rows of a parquet file decoded at once
_BUFFER = 2**20  # bytes of a column that are read at once


class Paths(NamedTuple):
    """The columns of a table of objects.

    Attributes:
      fields: the names that lead from a row to the value of each field.
      rows: as of `Layout`.
    """

    fields: Mapping[str, tuple[str, ...]]
    rows: str = ""


@dataclasses.dataclass(frozen=True)
class ObjectFile:
    """A file whose rows are objects.

    Attributes:
      format: "json" is a list.
    """

    path: Path
    format: Format

    @functools.cached_property
    def names(self) -> list[str]:
        """The names of the columns; those of JSON are from the first rows."""
        if self.format == "parquet":
            with _parquet(self.path) as file:
                return list(file.schema_arrow.names)
        return list(dict.fromkeys(name for row in self._sample for name in row))

    @functools.cached_property
    def paths(self) -> list[str]:
        """The names, and the paths of nested columns: "translation.de"."""
        if self.format == "parquet":
            with _parquet(self.path) as file:
                schema = file.schema_arrow
                return [path for field in schema for path in _field_paths(field.name, field.type)]
        paths = (path for row in self._sample for path in _value_paths(row))
        return list(dict.fromkeys(paths))

    def rows(self, bad_examples: BadExamples, names: Sequence[str] = ()) -> Iterator[Node]:
        """Streams the rows.

        Args:
          names: the columns of a parquet file that are read; empty for all.

        Raises:
          UserError: if the file cannot be read, or by `bad_examples`.
        """
        if self.format == "parquet":
            return self._parquet_rows(names)
        if self.format == "json":
            return read_json_array(self.path)
        return read_json_lines(self.path, bad_examples)

    def label_names(self, name: str) -> list[str]:
        """A column's label names by number, from Hugging Face's metadata in parquet; or empty."""
        if self.format != "parquet":
            return []
        with _parquet(self.path) as file:
            metadata = file.schema_arrow.metadata or {}
        with contextlib.suppress(ValueError, LookupError, TypeError):
            features = json.loads(metadata[b"huggingface"])["info"]["features"]
            return [str(label) for label in features[name]["names"]]
        return []

    @functools.cached_property
    def _sample(self) -> list[dict[str, Any]]:
        rows = itertools.islice(self.rows(BadExamples("skip")), _SAMPLE)
        return [row.value for row in rows if isinstance(row.value, dict)]

    def _parquet_rows(self, names: Sequence[str]) -> Iterator[Node]:
        with _parquet(self.path) as file:
            batches = file.iter_batches(_BATCH, columns=list(names) or None)
            rows = itertools.chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, row in enumerate(rows, start=1):
                yield Node(row, f"{self.path}: row {number}")


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """An open parquet file; errors of reading it become a UserError."""
    import pyarrow  # takes a while
    import pyarrow.parquet

    options = {"pre_buffer": False, "buffer_size": _BUFFER}  # memory does not grow with the file
    try:
        with _seekable(path) as file, pyarrow.parquet.ParquetFile(file, **options) as parquet:
            yield parquet
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: not a parquet file that can be read ({reason})") from error


@contextlib.contextmanager
def _seekable(path: Path) -> Iterator[Any]:
    """A file for random access: itself, or a temporary file with its decompressed content."""
    with tempfile.TemporaryFile() as unpacked:
        with reading(path) as file:
            is_plain = isinstance(file.raw, io.FileIO)
            if not is_plain:
                shutil.copyfileobj(file, unpacked)
        yield str(path) if is_plain else unpacked


def _field_paths(path: str, kind: Any) -> Iterator[str]:
    """The path of a parquet column and those below it."""
    from pyarrow import types

    yield path
    while types.is_list(kind) or types.is_large_list(kind):
        kind = kind.value_type
    if types.is_struct(kind):
        for field in kind:
            yield from _field_paths(f"{path}.{field.name}", field.type)


def _value_paths(row: dict[str, Any], start: str = "") -> Iterator[str]:
    """The paths of the values of a JSON object, with those of the first object in a list."""
    for name, value in row.items():
        yield f"{start}{name}"
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, dict):
            yield from _value_paths(value, f"{start}{name}.")


def examples_in(node: Node, rows: str, bad_examples: BadExamples) -> Iterator[Node]:
    """The examples of a row, each with the row's other columns."""
    if isinstance(node.value, dict) and [*node.value] == ["header"]:  # the first line of MRQA
        return
    for child in bad_examples.parse(lambda: list(node.nodes(rows))) or ():
        yield Node({**node.value, rows: child.value}, child.place)


def reader(field: str) -> Callable[[Node, tuple[str, ...]], Any]:
    """The function (row, path of names) -> value for a field."""
    return _READERS.get(field, _text)


def _parent(node: Node, path: tuple[str, ...]) -> Node:
    for name in path[:-1]:
        node = node.node(name)
    return node


def _text(node: Node, path: tuple[str, ...]) -> str:
    value = node.value
    for name in path:
        value = value.get(name) if type(value) is dict else None
    if type(value) is str and value.isascii():  # most texts; the path below reports errors
        return value
    return _parent(node, path).get(path[-1], str)


def _text_or_number(node: Node, path: tuple[str, ...]) -> str:
    """A text or a number, such as stars: 4 or 4.0; "" for null, also pandas' NaN."""
    node = _parent(node, path)
    value = node.value.get(path[-1]) if isinstance(node.value, dict) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "" if math.isnan(value) else str(value).removesuffix(".0")
    is_null = value is None and isinstance(node.value, dict) and path[-1] in node.value
    return "" if is_null else node.get(path[-1], str)


def _label(node: Node, path: tuple[str, ...]) -> str:
    """As `_text_or_number`, or a bool as Python writes it."""
    parent = _parent(node, path)
    value = parent.value.get(path[-1]) if isinstance(parent.value, dict) else None
    return str(value) if isinstance(value, bool) else _text_or_number(node, path)


def _text_or_none(node: Node, path: tuple[str, ...]) -> str:
    return _parent(node, path).get(path[-1], str, default="")


def _answers(node: Node, path: tuple[str, ...]) -> Any:
    """The answers; with the column `STARTS`, if there is one."""
    node = _parent(node, path)
    if not isinstance(node.value, dict) or path[-1] not in node.value:
        node.get(path[-1], list)  # raises
    value = node.value[path[-1]]
    return {"text": value, STARTS: node.value[STARTS]} if STARTS in node.value else value


_READERS: Mapping[str, Callable[[Node, tuple[str, ...]], Any]] = {
    "label": _label,
    "id": _text_or_number,
    "title": _text_or_none,
    "answers": _answers,
}
