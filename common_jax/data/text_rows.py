"""Rows of texts by the names of columns, of CSV files and of lines split at a separator."""

import csv
import dataclasses
import functools
import itertools
import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from common_jax.bad_examples import BadExamples
from common_jax.columns import Quotes
from common_jax.data import raw_files
from common_jax.errors import UserError
from common_jax.io.files import decode_line, read_raw_lines
from common_jax.io.json_files import Node

SEPARATORS = ",;\t"  # of CSV
_SAMPLE = 100  # rows by which the separator is detected
_DECLARATION = re.compile('"?sep=(.)"?', re.IGNORECASE)  # a first line of Excel's
_RETURN = "\ud80d"  # stands for "\r", which csv takes for a line end; no decoded text has it

_MARK = b'"'
# A cell in quotation marks, to its closing mark or to the end of its line.
_QUOTED = re.compile(rb'"([^"]*+(?:""[^"]*+)*+)("|$)')

_log = logging.getLogger(__name__)

Rows = Iterator[tuple[int, list[str]]]  # the first line and the cells of each


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A file whose rows are texts.

    Attributes:
      is_csv: whether it is parsed as CSV.
      set_separator: of columns; with a tab, that of CSV is detected among `SEPARATORS`.
      quotes: as of `SplitsConfig`, for lines that are split at a separator.
      option: the setting of `quotes`, for messages.
    """

    path: Path
    is_csv: bool
    set_separator: str
    quotes: Quotes = "auto"
    option: str = "data.quotes"

    @functools.cached_property
    def separator(self) -> str:
        """The separator; in CSV, if none is set, that of a first line "sep=;", or the one that
        splits the first rows evenly.

        Raises:
          UserError: if it may be one of several.
        """
        if not self.is_csv or self.set_separator != "\t":
            return self.set_separator
        if self._declared:
            return self._declared

        # Those that split the first row, and of them those that split all rows of a sample evenly.
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

    @functools.cached_property
    def _declared(self) -> str:
        """The separator of a first line such as "sep=;", which is no row; "" without."""
        first = next(read_raw_lines(self.path), b"").decode(errors="replace")
        declared = match[1] if (match := _DECLARATION.fullmatch(first)) else ""
        is_set = not self.is_csv or self.set_separator != "\t"
        return "" if is_set and declared != self.set_separator else declared

    @functools.cached_property
    def _is_quoted(self) -> bool:
        """Whether cells may be in quotation marks, as in CSV; logs the choice."""
        if self.is_csv or self.quotes != "auto" or len(self.separator) > 1:
            return self.is_csv or (self.quotes == "csv" and len(self.separator) == 1)
        detect = functools.partial(reading_of_quotes, self.path, self.separator)
        chosen = raw_files.text_of(self.path, f"quotes at {self.separator!r}", detect)
        if chosen == "csv":
            what = "are read as in CSV; %s=text keeps them"
            _log.info(f"%s: quotation marks {what}", self.path, self.option)
        elif chosen == "text":
            what = "are part of the text; %s=csv reads them as in CSV"
            _log.info(f"%s: quotation marks {what}", self.path, self.option)
        return chosen == "csv"

    @functools.cached_property
    def has_returns(self) -> bool:
        """Whether cells have line ends with carriage returns."""

        def detect() -> str:
            first = next(read_raw_lines(self.path, ends=True), b"")
            end = "\r" if first.endswith(b"\r") else "\r\n"
            rows = self.rows(BadExamples("skip"))
            return "yes" if any(end in cell for _, cells in rows for cell in cells) else "no"

        name = f"returns at {self.separator!r}"
        return self._is_quoted and raw_files.text_of(self.path, name, detect) == "yes"

    def _sample(self, separator: str) -> tuple[int, int, bool]:
        """The line and the width of the first row, and whether the first rows have one width."""
        bad_examples = BadExamples("skip")
        sample = itertools.islice(self._split(separator, bad_examples), _SAMPLE)
        rows = [*sample] or [(sys.maxsize, list[str]())]
        even = not bad_examples.counts and len({len(cells) for _, cells in rows}) == 1
        return rows[0][0], len(rows[0][1]), even

    def rows(self, bad_examples: BadExamples) -> Rows:
        """The first line and the cells of each row; those in quotation marks may have several
        lines."""
        return self._split(self.separator, bad_examples)

    def filled(self, bad_examples: BadExamples) -> Rows:
        """The rows that are not blank."""
        return (row for row in self.rows(bad_examples) if not _is_blank(row[1]))

    def _split(self, separator: str, bad_examples: BadExamples) -> Rows:
        rows = self._parsed if self.is_csv or self._is_quoted else self._lines
        declaration = 1 if self._declared else 0
        for number, cells in rows(separator, bad_examples):
            if number != declaration:
                yield number, cells

    def _lines(self, separator: str, bad_examples: BadExamples) -> Rows:
        """The rows of a file in which each line is one."""
        for number, line in enumerate(read_raw_lines(self.path), start=1):
            text = bad_examples.parse(decode_line, line, self.path, number)
            if text is not None:
                yield number, text.split(separator)

    def _parsed(self, separator: str, bad_examples: BadExamples) -> Rows:
        """The rows of a file with quotation marks."""
        undecoded = False

        def lines() -> Iterator[str]:
            nonlocal undecoded
            for number, whole in enumerate(read_raw_lines(self.path, ends=True), start=1):
                line = whole.removesuffix(b"\n").removesuffix(b"\r")
                text = bad_examples.parse(decode_line, line, self.path, number)
                undecoded |= text is None
                text = line.decode(errors="surrogateescape") if text is None else text
                yield text.replace("\r", _RETURN) + whole[len(line) :].decode()

        # Each row begins after the lines that the reader has taken.
        reader = csv.reader(lines(), delimiter=separator, strict=True)
        while True:
            number = reader.line_num + 1
            undecoded = False
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:  # the reader continues with the next line
                if not undecoded:
                    bad_examples.reject(f"not CSV ({error})", f"{self.path}:{number}")
                continue
            if cells and not undecoded:
                has_returns = any(_RETURN in cell for cell in cells)
                yield number, [c.replace(_RETURN, "\r") for c in cells] if has_returns else cells


@dataclasses.dataclass(frozen=True)
class TextTable:
    """A table whose rows are texts.

    Attributes:
      names: those of the header, or empty without one: columns are "1", "2", ..., and "-1" is the
        last one of a row.
      line: of the header, or without one of the first row.
      most, least: numbers of columns that a row may have; `most` 0 is any.
      skips_blank: whether blank lines are ignored; they are bad examples otherwise.
    """

    file: TextFile
    names: Sequence[str]
    line: int
    most: int = 0
    skips_blank: bool = False
    least: int = 0

    @property
    def paths(self) -> Sequence[str]:
        """The names: no column is nested."""
        return self.names

    def rows(self, bad_examples: BadExamples, names: Sequence[str] = ()) -> Iterator[Node]:
        """Streams the rows that are no header and have the right number of columns.

        Args:
          names: the columns that are read; empty for all.

        Raises:
          UserError: if the file cannot be read, or by `bad_examples`.
        """
        numbers = {name: self.number(name) for name in names}
        for line, cells in self._without_blank_end(bad_examples):
            location = f"{self.file.path}:{line}"
            if self.names and line == self.line:
                continue
            if self.least <= len(cells) <= (self.most or len(cells)):
                yield Node(self._by_name(cells, numbers), location)
            elif not (self.skips_blank and _is_blank(cells)):
                needed = self.most or self.least
                bad_examples.reject(f"{len(cells)} columns where {needed} are needed", location)

    def number(self, name: str) -> int:
        """The number of a column from 1, or a negative one from the end of the row."""
        return self.names.index(name) + 1 if self.names else int(name)

    def _by_name(self, cells: Sequence[str], numbers: Mapping[str, int]) -> dict[str, str]:
        """The cells by the names of their columns, of those in `numbers` if there are any."""
        if numbers:
            count = len(cells)
            return {name: cells[n - (n > 0)] for name, n in numbers.items() if n <= count}
        names = self.names or map(str, itertools.count(1))
        return dict(zip(names, cells, strict=False))

    def _without_blank_end(self, bad_examples: BadExamples) -> Rows:
        """The rows but blank ones at the end, which are counted in the log."""
        blank: list[tuple[int, list[str]]] = []
        for line, cells in self.file.rows(bad_examples):
            blank.append((line, cells))
            if not _is_blank(cells):
                yield from blank
                blank.clear()
        if separators := [line for line, cells in blank if len(cells) > 1]:
            count = f"{len(separators)} rows of separators only, at its end, are left out"
            _log.info("%s:%d: %s", self.file.path, separators[0], count)


def _is_blank(cells: Sequence[str]) -> bool:
    return not any(map(str.strip, cells))


def reading_of_quotes(path: Path, separator: str) -> Literal["csv", "text", "none"]:
    """How the quotation marks of a table are read; "none" if it has none.

    They are those of CSV if each cell with marks is written as in CSV, and all cells are, or one
    has a doubled mark, a separator or a line end inside. A line end counts only if the lines have
    different numbers of separators, as parts of rows have.

    Args:
      separator: of columns, one character.
    """
    between = separator.encode()
    cell = rb'(?:"[^"]*+(?:""[^"]*+)*+"|[^"%b]*+)' % re.escape(between)
    row = re.compile(rb'%b(?:%b%b)*(?:%b"[^"]*+(?:""[^"]*+)*+)?|"[^"]*+(?:""[^"]*+)*+' % (
        cell, re.escape(between), cell, re.escape(between)
    ))  # fmt: skip
    has_marks = False
    needs_marks = False
    continues = False
    is_open = False
    all_quoted = True
    widths: set[int] = set()
    for line in read_raw_lines(path):
        if not line and not is_open:
            continue
        widths.add(line.count(between))
        line = _MARK + line if is_open else line  # the rest of a cell as a cell
        has_marks |= _MARK in line
        if not row.fullmatch(line):
            return "text"

        # The cells in marks, and the rest of the line.
        quoted = _QUOTED.findall(line)
        needs_marks |= any(_MARK in content or between in content for content, _ in quoted)
        all_quoted &= _QUOTED.sub(b"", line).count(between) + 1 == len(quoted)
        is_open = bool(quoted) and not quoted[-1][1]
        continues |= is_open
    if not has_marks:
        return "none"
    is_uneven = len(widths) > 1
    needs_marks |= continues
    as_csv = (needs_marks or all_quoted) and not is_open and (is_uneven or not continues)
    return "csv" if as_csv else "text"
