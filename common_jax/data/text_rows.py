"""Rows of texts in CSV files and in lines that are split at a separator."""

import csv
import dataclasses
import functools
import itertools
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from common_jax.bad_examples import BadExamples
from common_jax.columns import Quotes
from common_jax.data import raw_files
from common_jax.data.quotation import reading_of_quotes
from common_jax.errors import UserError
from common_jax.io.files import decode_line, ends_in_returns, read_raw_lines

SEPARATORS = ",;\t"  # of CSV
_SAMPLE = 100  # rows by which the separator is detected
_DECLARATION = re.compile('"?sep=(.)"?', re.IGNORECASE)  # a first line of Excel's
_RETURN = "\ud80d"  # stands for "\r", which csv takes for a line end; no decoded text has it
_RULE = 2  # of CSV, to be incremented if other rows are read from a file

_log = logging.getLogger(__name__)


class Form(NamedTuple):
    """The form of a table of texts.

    Attributes:
      numbers: of the fields' columns, from 1; negative ones count from the end of the row.
      header: the names of all columns; empty without a header.
      header_line: its line; 0 without one.
      least, most: numbers of columns that a row may have; `most` 0 is any.
    """

    separator: str
    numbers: Mapping[str, int]
    header: tuple[str, ...]
    header_line: int
    least: int
    most: int


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

    def identity(self) -> list[str]:
        """Identifies how rows are read beside the separator; empty for lines as they are."""
        if self.is_csv:
            return [f"csv {_RULE}"]
        read = {
            "quoted": self._is_quoted,
            "declared": bool(self._declared),
            "returns": ends_in_returns(self.path),
        }
        return [name for name, is_read in read.items() if is_read]

    @property
    def first_cells(self) -> list[str]:
        """The first line that is not blank, split at the separator, also if it cannot be read."""
        lines = itertools.islice(read_raw_lines(self.path), 1 if self._declared else 0, None)
        first = next(filter(bytes.strip, lines), b"").decode(errors="replace")
        return [cell.strip().strip('"') for cell in first.split(self.separator)]

    def starts(self, count: int) -> Iterator[tuple[int, list[str]]]:
        """The first rows, by each separator that the file may have."""
        is_detected = self.is_csv and not self._declared
        for separator in SEPARATORS if is_detected else (self.separator,):
            yield from itertools.islice(self._split(separator, BadExamples("skip")), count)

    def _sample(self, separator: str) -> tuple[int, int, bool]:
        """The line and the width of the first row, and whether the first rows have one width."""
        bad_examples = BadExamples("skip")
        sample = itertools.islice(self._split(separator, bad_examples), _SAMPLE)
        rows = [*sample] or [(sys.maxsize, list[str]())]
        even = not bad_examples.counts and len({len(cells) for _, cells in rows}) == 1
        return rows[0][0], len(rows[0][1]), even

    def rows(self, bad_examples: BadExamples) -> Iterator[tuple[int, list[str]]]:
        """The first line and the cells of each row; those in quotation marks may have several
        lines."""
        return self._split(self.separator, bad_examples)

    def _split(self, separator: str, bad_examples: BadExamples) -> Iterator[tuple[int, list[str]]]:
        rows = self._parsed if self.is_csv or self._is_quoted else self._lines
        declaration = 1 if self._declared else 0
        for number, cells in rows(separator, bad_examples):
            if number != declaration:
                yield number, cells

    def _lines(self, separator: str, bad_examples: BadExamples) -> Iterator[tuple[int, list[str]]]:
        """The rows of a file in which each line is one."""
        for number, line in enumerate(read_raw_lines(self.path), start=1):
            text = bad_examples.parse(decode_line, line, self.path, number)
            if text is not None:
                yield number, text.split(separator)

    def _parsed(self, separator: str, bad_examples: BadExamples) -> Iterator[tuple[int, list[str]]]:
        """The rows of a file with quotation marks."""
        undecoded = False

        def lines() -> Iterator[str]:
            nonlocal undecoded
            for number, line in enumerate(read_raw_lines(self.path), start=1):
                text = bad_examples.parse(decode_line, line, self.path, number)
                undecoded |= text is None
                text = line.decode(errors="surrogateescape") if text is None else text
                yield text.replace("\r", _RETURN) + "\n"

        reader = csv.reader(lines(), delimiter=separator, strict=True)
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
                has_returns = any(_RETURN in cell for cell in cells)
                yield number, [c.replace(_RETURN, "\r") for c in cells] if has_returns else cells
