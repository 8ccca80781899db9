"""Rows of texts in CSV files and in lines that are split at a separator."""

import csv
import dataclasses
import functools
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from common_jax.bad_examples import BadExamples
from common_jax.errors import UserError
from common_jax.io.files import decode_line, read_raw_lines

SEPARATORS = ",;\t"  # of CSV
_SAMPLE = 100  # rows by which the separator is detected


@dataclasses.dataclass(frozen=True)
class TextFile:
    """A file whose rows are texts.

    Attributes:
      is_csv: whether it is parsed as CSV.
      set_separator: of columns; with a tab, that of CSV is detected among `SEPARATORS`.
    """

    path: Path
    is_csv: bool
    set_separator: str

    @functools.cached_property
    def separator(self) -> str:
        """The separator; in CSV, if none is set, the one that splits the first rows evenly.

        Raises:
          UserError: if it may be one of several.
        """
        if not self.is_csv or self.set_separator != "\t":
            return self.set_separator
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
        sample = itertools.islice(self._split(separator, bad_examples), _SAMPLE)
        rows = [*sample] or [(sys.maxsize, list[str]())]
        even = not bad_examples.counts and len({len(cells) for _, cells in rows}) == 1
        return rows[0][0], len(rows[0][1]), even

    def rows(self, bad_examples: BadExamples) -> Iterator[tuple[int, list[str]]]:
        """The first line and the cells of each row; those of CSV may have several lines."""
        return self._split(self.separator, bad_examples)

    def _split(self, separator: str, bad_examples: BadExamples) -> Iterator[tuple[int, list[str]]]:
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
