"""Whether the quotation marks of separated lines are those of CSV, or part of the texts."""

import re
from pathlib import Path
from typing import Literal

from common_jax.io.files import read_raw_lines

_MARK = b'"'
# A cell in quotation marks, to its closing mark or to the end of its line.
_QUOTED = re.compile(rb'"([^"]*+(?:""[^"]*+)*+)("|$)')


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
    has_marks, needs_marks, continues, is_open = False, False, False, False
    all_quoted, widths = True, set[int]()
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
