"""Records for a predictor, from lines or tables, and their results as lines, CSV or JSON lines."""

import abc
import csv
import dataclasses
import functools
import io
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from common_jax.bad_examples import BadExamples
from common_jax.columns import Quotes, parse_columns
from common_jax.data.layouts import Layout
from common_jax.data.object_rows import Reader
from common_jax.data.table_format import ENDINGS
from common_jax.data.tables import Table
from common_jax.deploy.answer import Answer
from common_jax.deploy.predictor import Input, Unanswered
from common_jax.deploy.schema import Schema, object_in
from common_jax.errors import Location, UserError
from common_jax.fields import require
from common_jax.io.files import decode_line, ending, lines_of, read_raw_lines
from common_jax.io.json_files import read_json
from common_jax.text.squad import is_squad

ERROR = "error"  # the field and the column with the reason
COLUMNS = "--columns"


class Record(NamedTuple):
    """An input with all columns of its row, by name."""

    input: Input
    columns: Mapping[str, Any]


class Records(abc.ABC):
    """The inputs of a file or stream.

    Attributes:
      header: the names of the columns if all rows have the same, as in CSV; else empty.
    """

    header: Sequence[str] = ()

    @property
    def names(self) -> Sequence[str]:
        """The names of columns that some rows may have, as far as they are known."""
        return self.header

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Record]:
        """The records in order; a row that cannot be read is `Unanswered`."""


@dataclasses.dataclass
class LineRecords(Records):
    """Lines: texts as the predictor reads them, or JSON objects with the texts' names.

    Attributes:
      lines: bytes.
      place: their location for messages.
    """

    lines: Iterable[bytes]
    place: str
    schema: Schema

    def __iter__(self) -> Iterator[Record]:
        for number, line in enumerate(self.lines, start=1):
            location = Location(self.place, number)
            try:
                text = decode_line(line.rstrip(b"\r\n"), self.place, number)
                text = text.removeprefix("\ufeff") if number == 1 else text
            except UserError as error:
                yield Record(Input(location, Unanswered(str(error))), {})
                continue
            columns = object_in(text)
            if columns is None and self.schema.line != "json":
                texts = text.split("\t") if self.schema.line == "tab" else [text]
                columns = {t.name: part for t, part in zip(self.schema.texts, texts, strict=False)}
            yield Record(Input(location, text), columns or {})


@dataclasses.dataclass(frozen=True)
class InputTable(Table):
    """A table without labels."""

    option: str = COLUMNS
    readers: ClassVar[Mapping[str, Reader]] = {}  # all fields are texts

    def example_fault(self, cells: Sequence[str]) -> str:
        return "not surely an example"


class _Collected(BadExamples):
    """Collects the reasons why rows cannot be read."""

    def __init__(self) -> None:
        super().__init__("skip", option="")
        self.reasons: list[str] = []

    def parse(self, read: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return read(*args, **kwargs)
        except UserError as error:
            self.reasons.append(str(error))
            return None

    def reject(self, reason: str, location: str) -> None:
        self.reasons.append(f"{location}: {reason}")


@dataclasses.dataclass
class TableRecords(Records):
    """The rows of a table in any format of `common_jax.data.tables`."""

    table: InputTable
    schema: Schema

    @functools.cached_property
    def header(self) -> Sequence[str]:  # type: ignore[override]
        """The names of the columns; none for a table of objects."""
        if self.table.has_objects:
            return ()
        for name in (names := self.names):
            several = f"{self.table.path}: several columns are named {name!r}; rename one of them"
            require(names.count(name) == 1, several)
        return names

    @functools.cached_property
    def names(self) -> Sequence[str]:  # type: ignore[override]
        """As the base class; of JSON, and without a header, from the first rows."""
        table = self.table.content.table
        first = next(table.rows(BadExamples("skip")), None) if not table.names else None
        return table.names if first is None else list(first.value)

    def __iter__(self) -> Iterator[Record]:
        collected = _Collected()
        width = len(self.header)
        for node in self.table.content.table.rows(collected):
            yield from _unread_rows(collected)
            columns = node.value if isinstance(node.value, dict) else {}
            value: Mapping[str, Any] | Unanswered
            try:
                value = {**self.table.read_fields(node), **self._identity(columns)}
                if width and len(columns) > width:
                    value = Unanswered(f"{node.place}: {len(columns)} columns, not {width}")
            except UserError as error:
                value = Unanswered(str(error))
            yield Record(Input(node.place, value), columns)
        yield from _unread_rows(collected)

    def _identity(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The id of a row, for predictors whose lines can have one."""
        return _id_field(columns) if self.schema.line == "json" else {}


def _id_field(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The id of a row, if it has one; whole numbers are no floats, as pandas writes them beside
    missing ones."""
    value = columns.get("id")
    if isinstance(value, float):
        value = None if math.isnan(value) else int(value) if value.is_integer() else str(value)
    return {} if value is None else {"id": value}


def _unread_rows(collected: _Collected) -> Iterator[Record]:
    while collected.reasons:
        yield Record(Input("", Unanswered(collected.reasons.pop(0))), {})


@dataclasses.dataclass
class SquadRecords(Records):
    """The questions of a JSON file of SQuAD's form, with or without answers, in order."""

    path: Path

    def __iter__(self) -> Iterator[Record]:
        for article in read_json(self.path).nodes("data"):
            for paragraph in article.nodes("paragraphs"):
                for node in paragraph.nodes("qas"):
                    columns = node.value if isinstance(node.value, dict) else {}
                    value: Mapping[str, Any] | Unanswered
                    try:
                        context = paragraph.get("context", str)
                        question = node.get("question", str)
                        value = {"context": context, "question": question}
                        value |= _id_field(columns)
                    except UserError as error:
                        value = Unanswered(str(error))
                    yield Record(Input(node.place, value), columns)


def file_records(path: Path, columns: str, schema: Schema, quotes: Quotes = "auto") -> Records:
    """The records of a file: of a table if `columns` are given or its ending is a table's, of a
    SQuAD file if the schema's texts are context and question, or else of lines.

    Args:
      columns, quotes: as `data.columns` and `data.quotes`.

    Raises:
      UserError: for a table whose columns are not known.
    """
    if not columns and ending(path) not in ENDINGS:
        return LineRecords(read_raw_lines(path), str(path), schema)
    names = [text.name for text in schema.texts]
    if not columns and names == ["context", "question"] and is_squad(path):
        return SquadRecords(path)
    layout = Layout(schema.title, {text.name: (text.name, *text.columns) for text in schema.texts})
    by_field = parse_columns(columns, names, key=COLUMNS)
    options: Any = {"escaped_breaks": schema.escaped_breaks, "quotes": quotes}
    table = InputTable(path, (layout,), by_field, reads_all=True, **options)
    _ = table.content
    return TableRecords(table, schema)


def stream_records(file: io.BufferedIOBase, place: str, schema: Schema) -> Records:
    """The records of an open file of lines."""
    return LineRecords(lines_of(file, place), place, schema)


class Results(abc.ABC):
    """Writes the result of each record.

    Args:
      names: of `Records`, which the answers' fields do not use.
    """

    def __init__(self, file: Any, schema: Schema, names: Sequence[str] = ()):
        self._file = file
        self._schema = schema
        self._columns = names

    @abc.abstractmethod
    def write(self, record: Record, result: Answer | Unanswered) -> None:
        """Writes a result."""

    def close(self) -> None:  # noqa: B027 (not all have something to do)
        """Writes what is still pending."""

    def _fields(self, record: Record, result: Answer | Unanswered) -> dict[str, Any]:
        """The answer's fields, or the error, under names that no column has."""
        fields = {ERROR: result.reason} if isinstance(result, Unanswered) else result.to_dict()
        repeated = [name for name in ("id",) if record.columns.get(name) == fields.get(name)]
        used = {*self._columns, *record.columns}
        return {_unused(n, used): value for n, value in fields.items() if n not in repeated}


def _unused(name: str, columns: Iterable[str]) -> str:
    while name in columns:
        name = f"predicted_{name}"
    return name


class AnswerLines(Results):
    """A line for each answer. An error is a JSON object, or if answers are plain text an empty line
    and a message on standard error."""

    def write(self, record: Record, result: Answer | Unanswered) -> None:
        if not isinstance(result, Unanswered):
            line = result.line
        elif self._schema.plain:
            line = ""
            print(f"error: {result.reason}", file=sys.stderr, flush=True)
        else:
            line = json.dumps({ERROR: result.reason}, ensure_ascii=False)
        print(line, file=self._file, flush=True)


class JsonLines(Results):
    """An object for each record: its columns, and the answer's fields or "error"."""

    def write(self, record: Record, result: Answer | Unanswered) -> None:
        row = _finite({**record.columns, **self._fields(record, result)})
        print(json.dumps(row, ensure_ascii=False, default=str), file=self._file, flush=True)


class CsvRows(Results):
    """A row for each record: its columns, the fields of answers, and "error"; values that are no
    texts or numbers are JSON. Errors before the first answer wait for the header."""

    def __init__(self, file: Any, schema: Schema, header: Sequence[str]):
        super().__init__(file, schema, header)
        self._writer = csv.writer(file, lineterminator="\n")
        self._names = list[str]()
        self._waiting: list[tuple[Record, Unanswered]] = []

    def write(self, record: Record, result: Answer | Unanswered) -> None:
        if not self._names:
            if isinstance(result, Unanswered):
                self._waiting.append((record, result))
                return
            self._start([*self._fields(record, result)])
        self._write(record, result)

    def close(self) -> None:
        """Writes the errors of an input without any answer."""
        if not self._names:
            self._start([])

    def _start(self, names: Sequence[str]) -> None:
        self._names = [*self._columns, *names, _unused(ERROR, self._columns)]
        self._writer.writerow(self._names)
        for record, result in self._waiting:
            self._write(record, result)

    def _write(self, record: Record, result: Answer | Unanswered) -> None:
        row = {**record.columns, **self._fields(record, result)}
        self._writer.writerow(_cell(row.get(name, "")) for name in self._names)
        self._file.flush()


def _finite(value: Any) -> Any:
    """A value of JSON, in which numbers that JSON does not have, NaN and infinities, are null."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> Any:
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return value if plain else json.dumps(value, ensure_ascii=False)


def results_to(path: Path | None, records: Records, file: Any, schema: Schema) -> Results:
    """The writer of results: CSV or JSON lines by the ending of `path`, or else `AnswerLines`.

    Raises:
      UserError: for CSV of records that are no rows of texts.
    """
    form = None if path is None else ENDINGS.get(path.suffix.lower().removeprefix("."))
    if form == "csv":
        if not records.header:
            is_empty = isinstance(records, TableRecords) and not records.table.has_objects
            reason = "only a table of texts, such as CSV, is written as CSV; name it .jsonl"
            raise UserError(f"--output {path}: {'the input is empty' if is_empty else reason}")
        return CsvRows(file, schema, records.header)
    if form in ("parquet", "json", "lines"):
        raise UserError(f"--output {path}: name it .csv or .jsonl, or .txt for the answers only")
    return (JsonLines if form == "jsonl" else AnswerLines)(file, schema, records.names)
