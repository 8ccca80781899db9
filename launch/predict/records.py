"""Records for a predictor, from lines or tables, and their results as lines, CSV or JSON lines."""

import csv
import dataclasses
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
from common_jax.io.files import decode_line, ending, is_pipe, lines_of, read_raw_lines
from common_jax.io.json_files import read_json
from common_jax.text.squad import is_squad

ERROR = "error"  # the field and the column with the reason
COLUMNS = "--columns"


class Record(NamedTuple):
    """An input with all columns of its row, by name."""

    input: Input
    columns: Mapping[str, Any]


class Records(NamedTuple):
    """The inputs of a file or stream.

    Attributes:
      rows: in order; one that cannot be read is `Unanswered`.
      header: the names of the columns if all rows have the same, as in CSV, none of an empty file;
        else None.
      names: returns those of all rows' columns, of a stream none.
    """

    rows: Iterator[Record]
    header: Sequence[str] | None = None
    names: Callable[[], Sequence[str]] = tuple


def _file_records(path: Path, rows: Callable[[], Iterator[Record]]) -> Records:
    """The records of a file whose rows have different columns.

    Args:
      rows: reads the file.
    """

    def names() -> Sequence[str]:
        return [*dict.fromkeys(name for record in rows() for name in record.columns)]

    return Records(rows(), None, names)


def _line_rows(lines: Iterable[bytes], place: str, schema: Schema) -> Iterator[Record]:
    """Lines: texts as the predictor reads them, or JSON objects with the texts' names.

    Args:
      place: their location for messages.
    """
    for number, line in enumerate(lines, start=1):
        location = Location(place, number)
        try:
            text = decode_line(line.rstrip(b"\r\n"), place, number)
            text = text.removeprefix("\ufeff") if number == 1 else text
        except UserError as error:
            yield Record(Input(location, Unanswered(str(error))), {})
            continue
        columns = object_in(text)
        if columns is None and schema.line != "json":
            texts = text.split("\t") if schema.line == "tab" else [text]
            columns = {t.name: part for t, part in zip(schema.texts, texts, strict=False)}
        yield Record(Input(location, text), columns or {})


@dataclasses.dataclass(frozen=True)
class InputTable(Table):
    """A table without labels."""

    option: str = COLUMNS
    readers: ClassVar[Mapping[str, Reader]] = {}  # all fields are texts

    def example_fault(self, cells: Sequence[str]) -> str:
        return "not surely an example"

    @property
    def has_columns(self) -> bool:
        """Whether it has all `columns`, which are names."""
        if self.has_objects:
            return {*self.columns.values()} <= {*self._objects.paths}
        return self._header_line() > 0

    @property
    def is_split(self) -> bool:
        """Whether `separator` splits its first row."""
        _, cells = next(self._texts.filled(BadExamples("skip")), (0, []))
        return len(cells) > 1


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


def _table_records(table: InputTable, schema: Schema) -> Records:
    """The rows of a table in any format of `common_jax.data.tables`.

    Raises:
      UserError: for a table of texts with several columns of one name.
    """
    names = table.content.table.names
    if table.format in ("json", "jsonl"):
        return _file_records(table.path, lambda: _table_rows(table, schema))

    # The columns; those without a header are the first row's.
    first = None if names else next(table.content.table.rows(BadExamples("skip")), None)
    names = names if first is None else [*first.value]
    if table.has_objects:
        return Records(_table_rows(table, schema), None, lambda: names)

    for name in names:
        several = f"{table.path}: several columns are named {name!r}; rename one of them"
        require(names.count(name) == 1, several)
    return Records(_table_rows(table, schema, len(names)), names, lambda: names)


def _table_rows(table: InputTable, schema: Schema, width: int = 0) -> Iterator[Record]:
    """The rows of a table.

    Args:
      width: number of its columns, if all rows have the same.
    """
    collected = _Collected()
    for node in table.content.table.rows(collected):
        yield from _unread_rows(collected)
        columns = node.value if isinstance(node.value, dict) else {}
        value: Mapping[str, Any] | Unanswered
        try:
            value = table.read_fields(node)
            if schema.line == "json":  # the lines of its predictors can have an id
                value = {**value, **_id_field(columns)}
            if width and len(columns) > width:
                value = Unanswered(f"{node.place}: {len(columns)} columns, not {width}")
        except UserError as error:
            value = Unanswered(str(error))
        yield Record(Input(node.place, value), columns)
    yield from _unread_rows(collected)


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


def _squad_rows(path: Path) -> Iterator[Record]:
    """The questions of a JSON file of SQuAD's form, with or without answers, in order."""
    for article in read_json(path).nodes("data"):
        for paragraph in article.nodes("paragraphs"):
            for node in paragraph.nodes("qas"):
                columns = node.value if isinstance(node.value, dict) else {}
                value: Mapping[str, Any] | Unanswered
                try:
                    context = paragraph.get("context", str)
                    question = node.get("question", str)
                    value = {"context": context, "question": question, **_id_field(columns)}
                except UserError as error:
                    value = Unanswered(str(error))
                yield Record(Input(node.place, value), columns)


def file_records(path: Path, columns: str, schema: Schema, quotes: Quotes | None = None) -> Records:
    """The records of a file: of a table if `columns` are given or its ending is a table's, of a
    SQuAD file if the schema's texts are context and question, or else of lines, as of a pipe.

    Args:
      columns: as `data.columns`; "" for the schema's if the table has them, or known ones.
      quotes: as `data.quotes`; None for the schema's.

    Raises:
      UserError: for a table whose columns are not known.
    """
    if is_pipe(path) and not columns:
        return stream_records(path.open("rb"), str(path), schema)
    if not columns and ending(path) not in ENDINGS:
        return _file_records(path, lambda: _line_rows(read_raw_lines(path), str(path), schema))
    names = [text.name for text in schema.texts]
    if not columns and names == ["context", "question"] and is_squad(path):
        return _file_records(path, lambda: _squad_rows(path))
    layout = Layout(schema.title, {text.name: (text.name, *text.columns) for text in schema.texts})
    by_field = parse_columns(columns or schema.columns, names, key=COLUMNS)
    options: Any = {"escaped_breaks": schema.escaped_breaks, "quotes": quotes or schema.quotes}
    options |= {"separator": schema.separator}
    table = InputTable(path, (layout,), by_field, reads_all=True, **options)
    if schema.separator != "\t" and not table.has_objects and not table.is_split:
        table = dataclasses.replace(table, separator="\t")
    if not columns and by_field and not table.has_columns:
        table = dataclasses.replace(table, columns={})
    return _table_records(table, schema)


def stream_records(file: io.BufferedIOBase, place: str, schema: Schema) -> Records:
    """The records of an open file of lines."""
    return Records(_line_rows(lines_of(file, place), place, schema))


class Results:
    """Writes the result of each record.

    Lines have the answers; an error is a JSON object, or if answers are plain text an empty line
    and a message on standard error. A row of "jsonl" or "csv" has the record's columns, and the
    answer's fields or "error" under names that no column has, the same in all rows. CSV's values
    that are no texts or numbers are JSON, and its errors before the first answer wait for the
    header.

    Args:
      form: "jsonl", "csv", or None for lines.
      columns: names of columns that records may have, as far as they are known; for "csv" of all.
    """

    def __init__(self, file: Any, schema: Schema, form: str | None, columns: Sequence[str]):
        self._file = file
        self._schema = schema
        self._form = form
        self._columns = columns
        self._seen = {*columns}
        self._names = dict[str, str]()  # of the columns of answers' fields
        self._head = list[str]()
        self._waiting = list[dict[str, Any]]()

    def write(self, record: Record, result: Answer | Unanswered) -> None:
        """Writes a result; raises UserError for a column with the name of an earlier field."""
        if self._form is None:
            self._print(self._line(result))
            return
        fields = self._fields(record, result)
        row = {**record.columns, **fields}
        if self._form == "jsonl":
            self._print(json.dumps(_finite(row), ensure_ascii=False, default=str))
            return
        self._waiting.append(row)
        if self._head or not isinstance(result, Unanswered):
            self._write_waiting(fields)

    def close(self) -> None:
        """Writes the errors of an input without any answer."""
        if self._form == "csv":
            self._write_waiting(())

    def _print(self, line: str) -> None:
        print(line, file=self._file, flush=True)

    def _line(self, result: Answer | Unanswered) -> str:
        if not isinstance(result, Unanswered):
            return result.line
        if not self._schema.plain:
            return json.dumps({ERROR: result.reason}, ensure_ascii=False)
        print(f"error: {result.reason}", file=sys.stderr, flush=True)
        return ""

    def _fields(self, record: Record, result: Answer | Unanswered) -> dict[str, Any]:
        """The answer's fields, or the error, under names that no column has."""
        fields = {ERROR: result.reason} if isinstance(result, Unanswered) else result.columns
        repeated = [name for name in ("id",) if record.columns.get(name) == fields.get(name)]
        self._seen |= record.columns.keys()
        for field, name in self._names.items():
            reason = f"earlier rows of --output have the answer's {field!r} under this name"
            advice = "give all rows the column, or use --input with a file that is no pipe"
            place = f"{record.input.place}: column {name!r}"
            require(name not in record.columns, f"{place}: {reason}; {advice}")
        new = [name for name in fields if name not in repeated]
        self._names = {name: _unused(name, self._seen) for name in new} | self._names
        return {self._names[name]: fields[name] for name in new}

    def _write_waiting(self, fields: Iterable[str]) -> None:
        """Writes the rows that wait, the first time below a header with these fields."""
        if not self._head:
            self._head = [*self._columns, *fields, _unused(ERROR, self._columns)]
            self._write_row(self._head)
        for row in self._waiting:
            self._write_row([_cell(row.get(name, "")) for name in self._head])
        self._waiting.clear()
        self._file.flush()

    def _write_row(self, cells: Sequence[Any]) -> None:
        """Writes a row of CSV, with quotes around a carriage return, which else ends a row."""
        has_return = any("\r" in cell for cell in cells if isinstance(cell, str))
        if has_return:
            writer = csv.writer(self._file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        else:
            writer = csv.writer(self._file, lineterminator="\n")
        writer.writerow(cells)


def _unused(name: str, columns: Iterable[str]) -> str:
    while name in columns:
        name = f"predicted_{name}"
    return name


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
    """The writer of results: CSV or JSON lines by the ending of `path`, or else lines.

    Raises:
      UserError: for CSV of records that are no rows of texts.
    """
    form = None if path is None else ENDINGS.get(path.suffix.lower().removeprefix("."))
    if form == "csv" and not records.header:
        reason = "the input is empty"
        if records.header is None:
            reason = "only a table of texts, such as CSV, is written as CSV; name it .jsonl"
        raise UserError(f"--output {path}: {reason}")
    if form in ("parquet", "json", "lines"):
        raise UserError(f"--output {path}: name it .csv or .jsonl, or .txt for the answers only")
    return Results(file, schema, form, records.names() if form else ())
