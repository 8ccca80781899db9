"""Tables of examples, in any format: which columns are the fields, and the rows.

Parquet, JSON lines and JSON lists have rows of objects (`common_jax.data.object_rows`), CSV and
separated lines have rows of texts (`common_jax.data.text_rows`). The columns are those of
`data.columns`. Without it they are found by a known layout (`common_jax.data.layouts`), or, in a
table of texts that has only the fields' columns, by their order; all else is refused rather than
guessed.
"""

import dataclasses
import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from common_jax.bad_examples import BadExamples
from common_jax.columns import Quotes
from common_jax.data.known_columns import (
    KnownColumns,
    has_names,
    known_columns,
    log_columns,
    matching_numbers,
    optional_columns,
)
from common_jax.data.layouts import Layout
from common_jax.data.object_rows import STARTS, ObjectFile, Paths, examples_in, reader
from common_jax.data.sources import FileSource
from common_jax.data.table_format import Format, format_of
from common_jax.data.text_rows import Form, TextFile
from common_jax.errors import UserError
from common_jax.fields import require

_TITLES = 10  # first rows in which a header is looked for

_log = logging.getLogger(__name__)


class Row(NamedTuple):
    """A row of a table.

    Attributes:
      place: location for messages.
      fields: the values of the fields; without optional ones that the table does not have.
      named: all values by the columns' names; empty without a header.
      cells: all values of a row of texts.
    """

    place: str
    fields: Mapping[str, Any]
    named: Mapping[str, Any]
    cells: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Table(FileSource):
    """A table in the format of its name's ending or, without a known one, of its content.

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
    """

    layouts: Sequence[Layout]
    columns: Mapping[str, int | str]
    separator: str = "\t"
    skips_blank: bool = False
    escaped_breaks: bool = False
    quotes: Quotes = "auto"
    reads_all: bool = False
    option: str = "data.columns"

    @functools.cached_property
    def format(self) -> Format:
        """The format; raises UserError as `format_of`."""
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
          UserError: as `form` or `paths`, or by `bad_examples`.
        """
        return (self._object_rows if self.has_objects else self._text_rows)(bad_examples)

    def _text_rows(self, bad_examples: BadExamples) -> Iterator[Row]:
        form, blank_rows = self.form, list[tuple[int, list[str]]]()
        for number, cells in self._texts.rows(bad_examples):
            if number == form.header_line:
                continue
            if not any(map(str.strip, cells)):  # a bad example, but at the end of the table
                blank_rows.append((number, cells))
                continue
            for row_number, row in (*blank_rows, (number, cells)):
                location = f"{self.path}:{row_number}"
                if form.least <= len(row) <= (form.most or len(row)):
                    named = dict(zip(form.header, row, strict=False))
                    yield Row(location, self._fields(row, form), named, row)
                elif row is cells or not self.skips_blank:
                    needed = form.most or form.least
                    bad_examples.reject(f"{len(row)} columns where {needed} are needed", location)
            blank_rows.clear()
        if separators := [number for number, cells in blank_rows if len(cells) > 1]:
            count = f"{len(separators)} rows of separators only, at its end, are left out"
            _log.info("%s:%d: %s", self.path, separators[0], count)

    def _fields(self, row: Sequence[str], form: Form) -> dict[str, str]:
        """The values of the fields in a row of texts."""
        fields = {field: row[n - (n > 0)] for field, n in form.numbers.items()}
        if self.escaped_breaks and self.is_csv:
            return {field: text.replace("\\n", "\n") for field, text in fields.items()}
        return fields

    def _object_rows(self, bad_examples: BadExamples) -> Iterator[Row]:
        paths, rows = self.paths
        readers = [(field, reader(field), path) for field, path in paths.items()]
        read = lambda node: {field: value(node, path) for field, value, path in readers}
        names = [] if self.reads_all else self._read_names(paths)
        for node in self.objects.rows(bad_examples, names):
            for example in examples_in(node, rows, bad_examples) if rows else (node,):
                if (fields := bad_examples.parse(read, example)) is not None:
                    yield Row(example.place, fields, example.value)

    def _read_names(self, paths: Mapping[str, tuple[str, ...]]) -> list[str]:
        """The columns to read of a parquet file."""
        starts = {STARTS} & {*self.objects.names} if "answers" in paths else set()
        return sorted({path[0] for path in paths.values()} | starts)

    @functools.cached_property
    def objects(self) -> ObjectFile:
        """The file of a table of objects."""
        return ObjectFile(self.path, self.format)  # type: ignore[arg-type]

    @functools.cached_property
    def _texts(self) -> TextFile:
        option = self.option.replace("columns", "quotes")
        return TextFile(self.path, self.is_csv, self.separator, self.quotes, option)

    @functools.cached_property
    def paths(self) -> Paths:
        """The columns of a table of objects, by `columns` or a known layout; logs them.

        Raises:
          UserError: if a named column does not exist, or the columns must be named.
        """
        names, available = self.objects.names, self.objects.paths
        are_numbers = all(isinstance(column, int) for column in self.columns.values())
        numbered = bool(self.columns) and are_numbers and self.format != "parquet"
        if numbered:
            in_order = [*self.columns.values()] == [*range(1, len(self.columns) + 1)]
            reason = f"{self.option}: {self.path}: columns of JSON have no numbers"
            require(in_order, f"{reason}; {self._advice('names')}")
        layout, rows, fields = "", "", dict[str, str]()
        optional = self.layouts[0].optional
        if self.columns and not numbered:
            fields = {f: self._object_column(c, names, available) for f, c in self.columns.items()}
        elif known := self._known_columns(available):
            layout, optional, rows = known.layout.name, known.layout.optional, known.layout.rows
            fields = known.columns
        else:
            fields = self._unknown_columns(available)
        fields = {**fields, **optional_columns(optional, fields, available)}
        for column in fields.values():
            several = f"{self.path}: several columns are named {column!r}; rename one of them"
            require(names.count(column) < 2, several)
        if names:
            log_columns(self.path, layout, fields, names)
        path_of = lambda column: (column,) if column in names else tuple(column.split("."))
        return Paths({field: path_of(column) for field, column in fields.items()}, rows)

    def _object_column(
        self, column: int | str, names: Sequence[str], available: Sequence[str]
    ) -> str:
        """The name or path of a column of `columns`."""
        if isinstance(column, int) and self.format == "parquet":
            has = f"{self.option}: {self.path} has {len(names)} columns, none with number {column}"
            require(1 <= abs(column) <= len(names), f"{has}: {', '.join(names)[:300]}")
            return names[column - (column > 0)]
        listed = ", ".join(available)[:300]
        require(
            str(column) in available or not available,
            f"{self.option}: {self.path} has no column {column!r}; it has {listed}",
        )
        return str(column)

    def _unknown_columns(self, available: Sequence[str]) -> dict[str, str]:
        """The columns of JSON lines of an unknown layout that have some of the fields; rows without
        the others are bad examples."""
        lower = {name.lower(): name for name in available}
        known = {
            field: next((lower[name] for name in names if name in lower), None)
            for field, names in self.layouts[0].columns.items()
        }
        listed = ", ".join(available)[:300] or "(none)"
        require(
            self.format != "parquet" and (any(known.values()) or not available),
            f"{self.path}: no columns that are known: {listed}; {self._advice('names')}",
        )
        first = self.layouts[0].first_columns
        return {field: name or first[field] for field, name in known.items()}

    @functools.cached_property
    def _first(self) -> tuple[int, list[str]]:
        """The line and the cells of the first row of texts that is not blank and can be read.

        Raises:
          UserError: for one that cannot be read, if it may be the header.
        """
        for bad_examples in (BadExamples("skip"), BadExamples("error", option="")):
            rows = self._texts.rows(bad_examples)
            filled = ((line, cells) for line, cells in rows if any(map(str.strip, cells)))
            first = next(filled, (0, []))
            if not bad_examples.counts or not self._may_be_header(self._texts.first_cells):
                break
        return first

    def _may_be_header(self, cells: Sequence[str]) -> bool:
        """Whether a first row, in which not all can be read, may have the columns' names."""
        by_number = bool(self.columns) and all(isinstance(c, int) for c in self.columns.values())
        return not by_number and (bool(self.columns) or bool(self.example_fault(cells)))

    @functools.cached_property
    def form(self) -> Form:
        """The form of a table of texts, by `columns` and the first row; logs the columns.

        Raises:
          UserError: if a named column does not exist, or the columns must be named.
        """
        count = len(self.layouts[0].columns)
        line, first = self._first
        names = [cell.strip() for cell in first]
        known = None if self.columns or not first else self._known_columns(names, line)
        numbers = self._numbers(first, names, line, known)
        is_header = bool(first) and (known is not None or self._is_header(names, numbers))
        needed = max(0, *numbers.values()) - min(0, *numbers.values())  # from either end
        if first and not is_header:
            self._require_example(line, first, needed if self.columns else count)
        header = tuple(names) if is_header else ()
        if header:
            optional = known.layout.optional if known else self.layouts[0].optional
            added = optional_columns(optional, numbers, names)
            numbers = {**numbers, **{f: names.index(name) + 1 for f, name in added.items()}}
            chosen = {field: names[number - (number > 0)] for field, number in numbers.items()}
            log_columns(self.path, known.layout.name if known else "", chosen, names)
        elif first and self.columns and self.example_fault(first):
            _log.info("%s:%d: read as an example, not as a header", self.path, line)
        if self.columns and not header:
            most = len(first) if self.is_csv else 0
        else:
            most = len(header) or count
        least = most if self.is_csv else needed
        separator = self._texts.separator
        return Form(separator, numbers, header, line if header else 0, least, most)

    def columns_identity(self) -> list[Any]:
        """Identifies the columns that are read, as JSON."""
        if self.has_objects:
            fields = {field: list(path) for field, path in self.paths.fields.items()}
            return [self.format, fields, self.paths.rows]
        form = self.form
        return [
            self.format,
            dict(form.numbers),
            form.separator,
            bool(form.header),
            *self.rows_identity(),
        ]

    def rows_identity(self) -> list[str]:
        """Identifies how rows of texts are read: that longer lines are rejected, which `columns`
        would read, and `TextFile.identity`."""
        may_be_longer = self.is_csv or bool(self.columns) or bool(self.form.header)
        breaks = ["escaped breaks"] if self.is_csv and self.escaped_breaks else []
        return [*([] if may_be_longer else ["exact"]), *self._texts.identity(), *breaks]

    @property
    def column_names(self) -> Mapping[str, str]:
        """The name or path of each field's column; empty without a header."""
        if self.has_objects:
            return {field: ".".join(path) for field, path in self.paths.fields.items()}
        header = self.form.header
        return {f: header[n - (n > 0)] for f, n in self.form.numbers.items()} if header else {}

    @property
    def is_known(self) -> bool:
        """Whether the columns are those of a known layout."""
        names = self.objects.paths if self.has_objects else [c.strip() for c in self._first[1]]
        return self._known_columns(names) is not None

    def example_fault(self, cells: Sequence[str]) -> str:
        """Why a first row without a known name may be a header; "" if it is an example."""
        return ""

    def _numbers(
        self, first: Sequence[str], names: Sequence[str], line: int, known: KnownColumns | None
    ) -> Mapping[str, int]:
        """The numbers of the fields' columns in a table of texts with this first row."""
        if known:
            return {field: names.index(name) + 1 for field, name in known.columns.items()}
        if self.columns and first:
            return {field: self._number(names, column) for field, column in self.columns.items()}
        return {field: number for number, field in enumerate(self.layouts[0].columns, start=1)}

    def _require_example(self, line: int, first: Sequence[str], needed: int) -> None:
        """Requires that a first row without the names of a header is an example."""
        location, fields = f"{self.path}:{line}", self.layouts[0].columns
        names = [cell.strip() for cell in first]
        listed = ", ".join(name[:40] for name in names[:20])
        if below := self._header_below(line):
            raise UserError(
                f"{location}: a row above the header, which is line {below}; delete it: {listed}"
            )
        if self.columns:
            narrow = f"{location}: {len(first)} columns where {needed} are needed: {listed}"
            require(len(first) >= needed, f"{narrow}; {self._advice()}")
            return
        has_known = any(matching_numbers(columns, names) for columns in fields.values())
        fault = "not surely an example" if has_known else self.example_fault(first)
        if len(first) != needed and not has_known:
            columns = f"{len(first)} columns where {needed} are needed, and no header that is known"
            is_row = len(first) < needed and not fault  # a bad example
            require(is_row, f"{location}: {columns}: {listed}; {self._advice()}")
        message = f"{location}: no header that is known, and {fault}: {listed}; {self._advice()}"
        require(not fault, message)

    def _header_below(self, line: int) -> int:
        """The line of the first row below a line that has the names of a header; 0 without."""
        named = {column for column in self.columns.values() if isinstance(column, str)}
        for number, cells in self._texts.starts(_TITLES):
            names = [cell.strip() for cell in cells]
            is_known = known_columns(self.layouts, names) or (named and named <= {*names})
            if number > line and is_known:
                return number
        return 0

    def _number(self, names: Sequence[str], column: int | str) -> int:
        if isinstance(column, int):
            return column
        listed = ", ".join(names)[:300]
        below = 0 if column in names else self._header_below(self._first[0])
        above = f"; the header is line {below}: delete what is above it" if below else ""
        require(
            column in names,
            f"{self.option}: {self.path} has no column {column!r}; it has {listed}{above}",
        )
        require(
            names.count(column) == 1,
            f"{self.option}: {self.path} has several columns {column!r}; give its number",
        )
        return names.index(column) + 1

    def _is_header(self, names: Sequence[str], numbers: Mapping[str, int]) -> bool:
        """Whether the first row has the names of the columns."""
        if any(isinstance(column, str) for column in self.columns.values()):
            return True
        return has_names(self.layouts, names, numbers)

    def _known_columns(self, names: Sequence[str], line: int = 0) -> KnownColumns | None:
        """As `known_columns`."""
        if self.format in ("json", "jsonl"):  # first, as in earlier versions
            columns = self.layouts[0].first_columns
            if {*columns.values()} <= {*names}:
                return KnownColumns(self.layouts[0], columns)
        location = f"{self.path}:{line}" if line else str(self.path)
        return known_columns(self.layouts, names, location, self._advice())

    def _advice(self, by: Literal["names", "numbers"] = "numbers") -> str:
        fields = [*self.layouts[0].columns]
        order = ",".join(f"{name}={number}" for number, name in enumerate(fields, start=1))
        by_name = f"set {self.option}={'=NAME,'.join(fields)}=NAME with names of "
        return by_name + ("columns" if by == "names" else f"the header, or by number, {order}")
