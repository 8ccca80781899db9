"""Tables of examples, CSV or separated lines: which columns are the fields, and the rows.

The columns are those of `data.columns`. Without it they are found by a known header, or, in a table
that has only the fields' columns, by their order; all else is refused rather than guessed.
"""

import csv
import dataclasses
import functools
import itertools
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from common_jax.bad_examples import BadExamples
from common_jax.data.sources import FileSource
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.io.files import decode_line, read_raw_lines

SEPARATORS = ",;\t"  # of CSV
_SAMPLE = 100  # rows of which the separator is found
_NAME = re.compile(r"[a-z][\w-]*", re.ASCII | re.IGNORECASE)

_log = logging.getLogger(__name__)


class Row(NamedTuple):
    """A row of a table.

    Attributes:
      place: location for messages.
      texts: the cells of the fields, in their order.
      named: all cells by the header's names; empty without a header.
    """

    place: str
    texts: list[str]
    named: Mapping[str, str]


class Layout(NamedTuple):
    """The form of a table.

    Attributes:
      numbers: of the fields' columns, from 1; negative ones count from the end of the row.
      header: the names of all columns; empty without a header.
      header_line: its line; 0 without one.
      least, most: numbers of columns that a row may have; `most` 0 is any.
    """

    separator: str
    numbers: tuple[int, ...]
    header: tuple[str, ...]
    header_line: int
    least: int
    most: int


@dataclasses.dataclass(frozen=True)
class Table(FileSource):
    """A table, whose lines are split at `separator`, or which is parsed as CSV if it is .csv.

    Attributes:
      names: the fields, in the order of a table without a header, each with the names that its
        column has in known headers, in lower case.
      columns: the column of each field, by number or name (`SplitsConfig.columns_by_field`); empty
        if they are not named.
      separator: of columns. A tab leaves that of .csv to be found among `SEPARATORS`.
      skips_blank: whether blank lines are ignored; they are bad examples otherwise.
    """

    names: Mapping[str, Sequence[str]]
    columns: Mapping[str, int | str]
    separator: str = "\t"
    skips_blank: bool = False

    @property
    def is_csv(self) -> bool:
        name = self.path.name.lower().removesuffix(".gz")
        return name.endswith(".csv") and len(self.separator) == 1

    def rows(self, bad_examples: BadExamples) -> Iterator[Row]:
        """The rows that are no header and have the right number of columns.

        Raises:
          UserError: as `layout`, or by `bad_examples`.
        """
        layout = self.layout
        for number, cells in self._cells(layout.separator, bad_examples):
            location = f"{self.path}:{number}"
            if number == layout.header_line:
                continue
            if layout.least <= len(cells) <= (layout.most or len(cells)):
                named = dict(zip(layout.header, cells, strict=False))
                yield Row(location, [cells[n - (n > 0)] for n in layout.numbers], named)
            elif any(map(str.strip, cells)) or not self.skips_blank:
                needed = layout.most or layout.least
                bad_examples.reject(f"{len(cells)} columns where {needed} are needed", location)

    @functools.cached_property
    def layout(self) -> Layout:
        """The form, by `columns` and the first row; logs how the columns were found.

        Raises:
          UserError: if a named column does not exist, or the columns must be named.
        """
        separator, count = self._found_separator(), len(self.names)
        rows = self._cells(separator, BadExamples("skip"))
        filled = ((line, cells) for line, cells in rows if any(map(str.strip, cells)))
        line, first = next(filled, (0, []))
        numbers = self._numbers(first, line) if first else tuple(range(1, count + 1))
        header = tuple(cell.strip() for cell in first) if self._is_header(first, numbers) else ()
        if header:
            self._log_header(header, numbers)
        elif first and self.columns and not self.is_example(first):
            _log.info("%s:%d: read as an example, not as a header", self.path, line)
        needed = max(0, *numbers) - min(0, *numbers)  # so that no column is two fields
        if self.columns and not header:
            most = max(len(first), needed) if self.is_csv else 0
        else:
            most = len(header) or count
        least = most if self.is_csv else needed
        return Layout(separator, numbers, header, line if header else 0, least, most)

    def is_example(self, cells: Sequence[str]) -> bool:
        """Whether a first row without a known name is no header; a family may know better."""
        return True

    def _numbers(self, first: Sequence[str], line: int) -> tuple[int, ...]:
        """The numbers of the fields' columns in a table with this first row."""
        if self.columns:
            return tuple(self._number(first, column) for column in self.columns.values())
        location, count = f"{self.path}:{line}", len(self.names)
        known = {name: self._known(name, first) for name in self.names}
        order = ",".join(f"{name}={number}" for number, name in enumerate(self.names, start=1))
        advice = (
            f"set data.columns={'=NAME,'.join(self.names)}=NAME with names of the header, or by "
            f"number, {order}"
        )
        for name, at in known.items():
            several = ", ".join(first[number - 1].strip() for number in at)
            require(
                len(at) < 2, f"{location}: several columns can be the {name}: {several}; {advice}"
            )
        if all(known.values()):
            return tuple(number for (number,) in known.values())
        listed = ", ".join(cell.strip()[:40] for cell in first[:20])
        require(
            not any(known.values()) and (len(first) != count or self.is_example(first)),
            f"{location}: no header that is known, and not surely an example: {listed}; {advice}",
        )
        require(
            len(first) <= count,
            f"{location}: {len(first)} columns where {count} are needed, and no header that is "
            f"known: {listed}; {advice}",
        )
        return tuple(range(1, count + 1))

    def _number(self, first: Sequence[str], column: int | str) -> int:
        if isinstance(column, int):
            return column
        header = [cell.strip() for cell in first]
        listed = ", ".join(header)[:300]
        require(
            column in header, f"data.columns: {self.path} has no column {column!r}; it has {listed}"
        )
        require(
            header.count(column) == 1,
            f"data.columns: {self.path} has several columns {column!r}; give its number",
        )
        return header.index(column) + 1

    def _known(self, name: str, first: Sequence[str]) -> list[int]:
        """The numbers of the columns with a known name of a field."""
        cells = enumerate(first, start=1)
        return [number for number, cell in cells if cell.strip().lower() in self.names[name]]

    def _is_header(self, first: Sequence[str], numbers: Sequence[int]) -> bool:
        """Whether the first row has the names of the columns."""
        if not first or any(isinstance(column, str) for column in self.columns.values()):
            return bool(first)
        at = [number if number > 0 else len(first) + 1 + number for number in numbers]
        pairs = zip(self.names, at, strict=True)
        return all(number in self._known(name, first) for name, number in pairs)

    def _log_header(self, header: Sequence[str], numbers: Sequence[int]) -> None:
        chosen = [header[number - (number > 0)] for number in numbers]
        pairs = ", ".join(f"{f} = {c}" for f, c in zip(self.names, chosen, strict=True))
        left_out = ", ".join(name for name in header if name not in chosen)[:200]
        _log.info("%s: %s%s", self.path, pairs, f"; not read: {left_out}" if left_out else "")

    def _found_separator(self) -> str:
        """The separator; in CSV, if none is set, the one that splits the first rows evenly."""
        if not self.is_csv or self.separator != "\t":
            return self.separator
        samples = {separator: self._sample(separator) for separator in SEPARATORS}
        start = min(line for line, *_ in samples.values())
        splitting = [s for s, (line, width, _) in samples.items() if line == start and width > 1]
        even = [separator for separator in splitting if samples[separator][2]]
        choices = even or splitting or [","]
        if len(choices) > 1:
            listed = " or ".join(map(repr, choices))
            raise UserError(
                f"{self.path}: its columns may be separated by {listed}; put texts in quotation "
                "marks, or write it with tabs, as .tsv"
            )
        return choices[0]

    def _sample(self, separator: str) -> tuple[int, int, bool]:
        """The line and the width of the first row, and whether the first rows have one width."""
        bad_examples = BadExamples("skip")
        sample = itertools.islice(self._cells(separator, bad_examples), _SAMPLE)
        rows = [*sample] or [(sys.maxsize, list[str]())]
        even = not bad_examples.counts and len({len(cells) for _, cells in rows}) == 1
        return rows[0][0], len(rows[0][1]), even

    def _cells(self, separator: str, bad_examples: BadExamples) -> Iterator[tuple[int, list[str]]]:
        """The first line and the cells of each row; those of CSV may have several lines."""
        undecoded = False

        def lines() -> Iterator[str]:
            nonlocal undecoded
            for number, line in enumerate(read_raw_lines(self.path), start=1):
                text = bad_examples.parse(decode_line, line, self.path, number)
                undecoded |= text is None
                yield line.decode(errors="surrogateescape") if text is None else text

        if not self.is_csv:
            for number, line in enumerate(lines(), start=1):
                if not undecoded:
                    yield number, line.split(separator)
                undecoded = False
            return
        reader = csv.reader((f"{line}\n" for line in lines()), delimiter=separator, strict=True)
        while True:
            number, undecoded = reader.line_num + 1, False
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:  # the reader continues with the next line
                if not undecoded:
                    bad_examples.reject(f"not CSV ({error})", f"{self.path}:{number}")
                continue
            if cells and not undecoded:
                yield number, cells


def are_names(cells: Sequence[str]) -> bool:
    """Whether all cells could be names of a header."""
    return all(_NAME.fullmatch(cell.strip()) for cell in cells)
