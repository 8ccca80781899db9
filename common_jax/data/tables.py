"""Tables of examples, in any format: which columns are the fields, and the rows.

Parquet, JSON lines and JSON lists have rows of objects (`common_jax.data.object_rows`), CSV and
separated lines have rows of texts (`common_jax.data.text_rows`); both have columns by name, which
are "1", "2", ... without a header. The columns of the fields are those of `data.columns`. Without
it they are found by a known layout (`common_jax.data.layouts`), or, in a table of texts that has
only the fields' columns, by their order; all else is refused rather than guessed.
"""

import dataclasses
import functools
import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

from common_jax.bad_examples import BadExamples
from common_jax.columns import Quotes
from common_jax.data.layouts import (
    KnownColumns,
    Layout,
    has_names,
    known_columns,
    log_columns,
    matching_names,
    optional_columns,
)
from common_jax.data.object_rows import READERS, ObjectTable, Reader, examples_in, read_text
from common_jax.data.sources import FileSource, Joined, Source
from common_jax.data.table_format import Format, format_of
from common_jax.data.text_rows import TextFile, TextTable
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.io.json_files import Node

T = TypeVar("T")

_TITLES = 10  # first rows in which a header is looked for
_RULE = 1  # to be incremented if other rows are read from a file

_log = logging.getLogger(__name__)


class Row(NamedTuple):
    """A row of a table.

    Attributes:
      place: location for messages.
      fields: the values of the fields; without optional ones that the table does not have.
      named: the values by the columns' names.
    """

    place: str
    fields: Mapping[str, Any]
    named: Mapping[str, Any]


class Content(NamedTuple):
    """The rows of a table, and the columns of the fields.

    Attributes:
      fields: the name of each field's column, or its path, "translation.de".
      rows: as of `Layout`.
    """

    table: ObjectTable | TextTable
    fields: Mapping[str, str]
    rows: str = ""


@dataclasses.dataclass(frozen=True)
class Table(FileSource):
    """A table in the format of its name's ending (`format_of`).

    Attributes:
      layouts: the known ones. The fields are those of the first, in the order of a table without a
        header.
      columns: the column of each field, by number, name or path (`SplitsConfig.columns_by_field`);
        empty if they are not named.
      separator: of columns; with a tab, that of .csv is detected.
      skips_blank: whether blank lines are ignored; they are bad examples otherwise.
      escaped_breaks: whether a backslash and "n" in a CSV's field are a line break, as in Yelp's.
      quotes: as of `SplitsConfig`.
      reads_all: whether `Row.named` needs all columns.
      option: the setting of `columns`, for messages.
      readers: of fields whose values are no plain texts.
      beside: columns that the readers use where a table has them.
      logs_numbers: whether the columns of a table without a header are logged.
    """

    layouts: Sequence[Layout]
    columns: Mapping[str, int | str]
    separator: str = "\t"
    skips_blank: bool = False
    escaped_breaks: bool = False
    quotes: Quotes = "auto"
    reads_all: bool = False
    option: str = "data.columns"
    readers: ClassVar[Mapping[str, Reader]] = READERS
    beside: ClassVar[Sequence[str]] = ()
    logs_numbers: ClassVar[bool] = False

    @functools.cached_property
    def format(self) -> Format:
        """The format."""
        return format_of(self.path, self.separator)

    @property
    def is_csv(self) -> bool:
        """Whether cells are texts, separated by a character."""
        return self.format == "csv"

    @property
    def has_objects(self) -> bool:
        """Whether a cell may be a list or an object."""
        return self.format in ("parquet", "jsonl", "json")

    def rows(self, bad_examples: BadExamples) -> Iterator[Row]:
        """The rows that are no header and have the right number of columns.

        Raises:
          UserError: as `content`, or by `bad_examples`.
        """
        table, _, rows = self.content
        names = [] if self.reads_all else self._read_names()
        for node in table.rows(bad_examples, names):
            for example in examples_in(node, rows, bad_examples) if rows else (node,):
                if (fields := bad_examples.parse(self.read_fields, example)) is not None:
                    yield Row(example.place, fields, example.value)

    def read_fields(self, row: Node) -> dict[str, Any]:
        """The values of the fields in a row; raises UserError for a missing or another kind."""
        fields = {field: read(row, path) for field, read, path in self._readers}
        if self.escaped_breaks and self.is_csv:
            return {field: text.replace("\\n", "\n") for field, text in fields.items()}
        return fields

    @functools.cached_property
    def _readers(self) -> list[tuple[str, Reader, tuple[str, ...]]]:
        """The name, the reader and the column's path of each field."""
        names = self.content.table.names
        return [
            (
                field,
                self.readers.get(field, read_text),
                (column,) if column in names else tuple(column.split(".")),
            )
            for field, column in self.content.fields.items()
        ]

    def _read_names(self) -> list[str]:
        """The columns that are read."""
        beside = {*self.beside} & {*self.content.table.names}
        return sorted({path[0] for _, _, path in self._readers} | beside)

    @functools.cached_property
    def content(self) -> Content:
        """The rows, and the columns by `columns` or a known layout, which are logged.

        Raises:
          UserError: if a named column does not exist, or the columns must be named.
        """
        return self._content_of_objects() if self.has_objects else self._content_of_texts()

    def _content_of_objects(self) -> Content:
        table = self._objects
        columns = self.columns

        # JSON has no numbers, but those of a table without a header are its known names.
        if self._by_number and self.format != "parquet":
            in_order = [*columns.values()] == [*range(1, len(columns) + 1)]
            reason = f"{self.option}: {self.path}: columns of JSON have no numbers"
            require(in_order, f"{reason}; {self._advice}")
            columns = {}

        if columns:
            return self._with_optional(table, self._named(table.names, table.paths))
        if known := self._known_columns(table.paths):
            return self._with_optional(table, known.columns, known.layout)
        listed = ", ".join(table.paths)[:300]
        unknown = f"{self.path}: no columns that are known: {listed}; {self._advice}"
        require(not table.paths, unknown)
        return Content(table, self.layouts[0].first_columns)  # of an empty file

    def _content_of_texts(self) -> Content:
        # The first row, which is never a bad example, and whether it is the header.
        line, cells = next(self._texts.filled(BadExamples("error", option="")), (0, []))
        if not cells:
            return Content(TextTable(self._texts, [], line), {})
        names = [cell.strip() for cell in cells]
        header = self._header_line()
        listed = ", ".join(name[:40] for name in names[:20])
        above = f"{self.path}:{line}: a row above the header, which is line {header}; delete it"
        require(header in (0, line), f"{above}: {listed}")

        # The columns of the fields, and the number of columns that a row may have at most.
        known = self._known_columns(names, line) if header and not self.columns else None
        most = len(cells)
        if known:
            fields = known.columns
        elif self.columns and (header or not self._by_number):
            fields = self._named(names, names)
        elif self.columns:
            fields = {field: str(number) for field, number in self.columns.items()}
            most = most if self.is_csv else 0
        else:
            fields = {f: str(n) for n, f in enumerate(self.layouts[0].columns, start=1)}
            most = len(fields)

        # The rows: those of lines need the columns of the fields, counted from either end.
        table = TextTable(self._texts, names if header else [], line, most, self.skips_blank)
        at = [table.number(column) for column in fields.values()]
        needed = max(0, *at) - min(0, *at)
        table = dataclasses.replace(table, least=most if self.is_csv else needed)
        if header:
            return self._with_optional(table, fields, known.layout if known else None)
        self._require_example(f"{self.path}:{line}", names, needed, listed)
        if self.logs_numbers:
            log_columns(self.path, "", {f: f"column {n}" for f, n in fields.items()}, [])
        return Content(table, fields)

    def _header_line(self) -> int:
        """The line of the first row of texts that has the names of columns; 0 without."""
        for line, cells in itertools.islice(self._texts.filled(BadExamples("skip")), _TITLES):
            names = [cell.strip() for cell in cells]
            named = {column for column in self.columns.values() if isinstance(column, str)}
            if self._by_number:
                numbers = [n for n in self.columns.values() if isinstance(n, int)]
                names = [names[n - (n > 0)] for n in numbers if -len(names) <= n <= len(names)]
            if named <= {*names} if named else has_names(self.layouts, names):
                return line
        return 0

    def _require_example(
        self, location: str, names: Sequence[str], needed: int, listed: str
    ) -> None:
        """Requires that a first row without the names of a header is an example."""
        known = self.layouts[0].columns.values()
        has_known = any(matching_names(columns, names) for columns in known)
        fault = "not surely an example" if has_known else self.example_fault(names)
        if self.columns and fault:
            _log.info("%s: read as an example, not as a header", location)
        fits = len(names) >= needed if self.columns else len(names) == needed
        end = f"{listed}; {self._advice}"
        counts = f"{len(names)} columns where {needed} are needed, and no header that is known"
        require(fits, f"{location}: {counts}: {end}")
        is_example = bool(self.columns) or not fault
        require(is_example, f"{location}: no header that is known, and {fault}: {end}")

    def example_fault(self, cells: Sequence[str]) -> str:
        """Why a first row without a known name may be a header; "" if it is an example."""
        return ""

    def _named(self, names: Sequence[str], paths: Sequence[str]) -> dict[str, str]:
        """The name or path of each of `columns`."""
        columns = {}
        listed = ", ".join(paths)[:300]
        for field, column in self.columns.items():
            if isinstance(column, int):
                has = f"{len(names)} columns, none with number {column}: {listed}"
                exists = 1 <= abs(column) <= len(names)
                require(exists, f"{self.option}: {self.path} has {has}")
                column = names[column - (column > 0)]
            exists = column in paths or not paths
            missing = f"{self.option}: {self.path} has no column {column!r}; it has {listed}"
            require(exists, missing)
            columns[field] = column
        return columns

    def _with_optional(
        self,
        table: ObjectTable | TextTable,
        fields: Mapping[str, str],
        layout: Layout | None = None,
    ) -> Content:
        """The columns and those of optional fields, of a known layout if there is one; logs
        them."""
        optional = (layout or self.layouts[0]).optional
        fields = {**fields, **optional_columns(optional, fields, table.paths)}
        for column in fields.values():
            several = f"{self.path}: several columns are named {column!r}; rename one of them"
            require(table.names.count(column) < 2, several)
        if table.names:
            log_columns(self.path, layout.name if layout else "", fields, table.names)
        return Content(table, fields, layout.rows if layout else "")

    @property
    def _by_number(self) -> bool:
        """Whether `columns` are numbers."""
        return bool(self.columns) and all(isinstance(c, int) for c in self.columns.values())

    @functools.cached_property
    def _objects(self) -> ObjectTable:
        return ObjectTable(self.path, self.format)

    @functools.cached_property
    def _texts(self) -> TextFile:
        option = self.option.replace("columns", "quotes")
        return TextFile(self.path, self.is_csv, self.separator, self.quotes, option)

    def _known_columns(self, names: Sequence[str], line: int = 0) -> KnownColumns | None:
        """As `known_columns`."""
        if self.format in ("json", "jsonl"):  # first, as in earlier versions
            columns = self.layouts[0].first_columns
            if {*columns.values()} <= {*names}:
                return KnownColumns(self.layouts[0], columns)
        location = f"{self.path}:{line}" if line else str(self.path)
        return known_columns(self.layouts, names, location, self._advice)

    @property
    def _advice(self) -> str:
        """How to name the columns."""
        fields = [*self.layouts[0].columns]
        by_name = f"set {self.option}={'=NAME,'.join(fields)}=NAME with names of "
        if self.has_objects:
            return f"{by_name}columns"
        order = ",".join(f"{name}={number}" for number, name in enumerate(fields, start=1))
        return f"{by_name}the header, or by number, {order}"

    @property
    def is_known(self) -> bool:
        """Whether the columns are those of a known layout."""
        if self.has_objects:
            return has_names(self.layouts, self._objects.paths)
        return self._header_line() > 0

    def identity(self) -> Any:
        """Identifies the content and how it is read, as JSON."""
        fields = dict(self.content.fields)
        read = [_RULE, self.format, fields, self.content.rows, bool(self.columns)]
        read += [self.separator, self.quotes, self.escaped_breaks]
        read += [] if self.has_objects or not self._texts.has_returns else ["returns"]
        return [super().identity(), *read]


@dataclasses.dataclass(frozen=True)
class JoinedFiles(Joined[T]):
    """Several files; of those that are tables of texts all have a header, or none has one."""

    def identity(self) -> Any:
        tables = [s for s in self.sources if isinstance(s, Table) and not s.has_objects]
        tables = [table for table in tables if table.content.fields and not table.columns]
        named = next((table for table in tables if table.content.table.names), None)
        other = next((table for table in tables if not table.content.table.names), None)
        if named and other:
            names = [*named.content.table.names]
            columns = [(field, named.content.fields[field]) for field in named.layouts[0].columns]
            numbers = ",".join(f"{field}={names.index(name) + 1}" for field, name in columns)
            raise UserError(
                f"{other.path}: no header, where {named.path} has one; write its own there, or, if "
                f"the order of columns is the same, set {named.option}={numbers}"
            )
        return super().identity()


def join(sources: Iterable[Source[Iterator[T]]]) -> Source[Iterator[T]]:
    """Several files as one source; a single one is returned unchanged."""
    sources = tuple(sources)
    return sources[0] if len(sources) == 1 else JoinedFiles(sources)


def named_rows(path: Path) -> Iterator[Node]:
    """The rows of a table in any format, of which one of texts has a header.

    Raises:
      UserError: if it or a row cannot be read, or names of its header are repeated.
    """
    format = format_of(path)
    bad_examples = BadExamples("error", option="")
    if format in ("parquet", "jsonl", "json"):
        return ObjectTable(path, format).rows(bad_examples)
    texts = TextFile(path, format == "csv", "\t")
    line, cells = next(texts.filled(bad_examples), (0, []))
    names = [cell.strip() for cell in cells]
    repeated = next((name for name in names if names.count(name) > 1), None)
    several = f"{path}:{line}: several columns are named {repeated!r}; rename one of them"
    require(repeated is None, several)
    return TextTable(texts, names, line, len(names), True, len(names)).rows(bad_examples)
