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
from typing import Any

from common_jax.bad_examples import BadExamples
from common_jax.data.table_format import Format
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.io.files import reading
from common_jax.io.json_files import Node, filled_lines, read_json_array, read_json_lines

_SAMPLE = 100  # rows from which the columns of a JSON file are known
_BATCH = 4096  # rows of a parquet file decoded at once
_BUFFER = 2**20  # bytes of a column that are read at once


Reader = Callable[[Node, tuple[str, ...]], Any]  # of a field: (row, path of names) -> value


@dataclasses.dataclass(frozen=True)
class ObjectTable:
    """A table whose rows are objects.

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
        over_lines = next(filled_lines(self.path), b"") == b"{"
        needed = "an object a line, or a list of objects, is needed"
        require(not over_lines, f"{self.path}:1: an object over several lines where {needed}")
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


def parent(node: Node, path: tuple[str, ...]) -> Node:
    """The object that has the value at a path."""
    for name in path[:-1]:
        node = node.node(name)
    return node


def read_text(node: Node, path: tuple[str, ...]) -> str:
    """The text at a path."""
    value = node.value
    for name in path:
        value = value.get(name) if type(value) is dict else None
    if type(value) is str and (value.isascii() or value.isprintable()):  # no unpaired surrogates
        return value
    return parent(node, path).get(path[-1], str)


def read_scalar(node: Node, path: tuple[str, ...]) -> str:
    """A text; a number, such as stars: 4 or 4.0; a bool as Python writes it; "" for null, also
    pandas' NaN."""
    node = parent(node, path)
    name = path[-1]
    value = node.value.get(name) if isinstance(node.value, dict) else name
    if isinstance(value, int | float):
        return "" if math.isnan(value) else str(value).removesuffix(".0")
    return "" if value is None and name in node.value else node.get(name, str)


def _read_title(node: Node, path: tuple[str, ...]) -> str:
    return parent(node, path).get(path[-1], str, default="")


READERS: Mapping[str, Reader] = {"label": read_scalar, "id": read_scalar, "title": _read_title}
