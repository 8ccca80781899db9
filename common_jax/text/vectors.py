"""Pretrained word vectors in the text format of GloVe (Pennington et al. 2014).

A row is a word and D numbers, separated by spaces or tabs. Some words of the file 840B contain
spaces, hence the numbers are the last D fields. word2vec and fastText write the same format after a
first line "count D". A CR after a number ends a row too; NEL, U+2028 and their like do not.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float

from common_jax.bad_examples import BadExamples
from common_jax.errors import UserError
from common_jax.io.files import read_raw_lines
from common_jax.io.progress import progress

# Forms in which words are looked up, in this order.
FORMS: dict[str, Callable[[str], str]] = {
    "exact": str,
    "lower": str.lower,
    "capitalized": str.capitalize,
    "upper": str.upper,
}

ROWS = 2  # the version of the rule that splits a file into words and numbers
_BLANKS = b" \t\r"  # around a word
_LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True)
class Vectors:
    """Vectors of some words from a file.

    Attributes:
      rows: from each word with a vector, in any form, to its row; several may share one.
      table: the rows, in the file's order; each belongs to a word.
      matched: the number of words matched in each of `FORMS`, and of those `missing`.
      faulty: the number of words that are missing because their rows were rejected.
    """

    rows: dict[str, int]
    table: Float[np.ndarray, "R D"]
    matched: dict[str, int]
    faulty: int = 0


def find_cased_form(word: str, known: Callable[[str], bool]) -> tuple[str, str] | None:
    """The first of a word's `FORMS` that is known: the form's name, and the word in that form."""
    forms = ((name, change(word)) for name, change in FORMS.items())
    return next((match for match in forms if known(match[1])), None)


def read_vectors(
    path: str | Path, words: Collection[str], dim: int, bad_examples: BadExamples
) -> Vectors:
    """Reads the vectors of `words` in one pass, parsing only the rows of their `FORMS`.

    A word gets the first row of the file for the first of its forms that the file has: unchanged,
    lower case, Capitalised, UPPER case. Rejects rows with fewer or more numbers, and rows of
    `words` with a field that is no number.

    Args:
      path: plain or compressed; a zip must hold one file, or one that ends in .txt.
      words: in any case.
      dim: D, the numbers in a row.

    Raises:
      UserError: if the file cannot be read, is empty or of another dimension; or by `bad_examples`.
    """
    # The first row of each form of the words; the file is read once.
    words = list(dict.fromkeys(words))
    candidates = {_encode(form(word)) for form in FORMS.values() for word in words}
    vectors_by_token: dict[bytes, np.ndarray] = {}
    rejected: set[bytes] = set()
    lines = progress(_rows(path, dim, bad_examples, rejected), f"reading {Path(path).name}", "rows")
    for number, token, line in lines:
        if token in candidates and token not in vectors_by_token:
            vector = bad_examples.parse(_numbers, line, dim, f"{path}:{number}")
            if vector is None:
                rejected.add(token)
            else:
                vectors_by_token[token] = vector

    # The form that each word gets.
    counts = dict.fromkeys([*FORMS, "missing"], 0)
    faulty = 0
    chosen = dict[str, bytes]()
    for word in words:
        match = find_cased_form(word, lambda form: _encode(form) in vectors_by_token)
        counts[match[0] if match else "missing"] += 1
        if match:
            chosen[word] = _encode(match[1])
        elif find_cased_form(word, lambda form: _encode(form) in rejected):
            faulty += 1

    # The rows that some word uses, in the order of the file.
    needed = set(chosen.values())
    used = [form for form in vectors_by_token if form in needed]
    index = {form: row for row, form in enumerate(used)}
    rows = {word: index[form] for word, form in chosen.items()}
    table = np.array([vectors_by_token[form] for form in used], np.float32).reshape(-1, dim)
    return Vectors(rows, table, counts, faulty)


def _rows(
    path: str | Path, dim: int, bad_examples: BadExamples, rejected: set[bytes]
) -> Iterator[tuple[int, bytes, bytes]]:
    """The line number, word and line of each row with `dim` numbers; the first fields of other rows
    are added to `rejected`."""
    first = True
    for number, line in enumerate(_split_at_returns(read_raw_lines(path, ".txt")), start=1):
        line = line.strip(_BLANKS).replace(b"\t", b" ")  # fastText ends its rows with a space
        if number == 1 and (header := _header(line)) is not None:
            if header != dim:
                raise _other_dimension(path, number, dim, header)
            continue

        # Most rows have single spaces, and need no splitting.
        if line.count(b" ") == dim and b"  " not in line:
            yield number, line[: line.index(b" ")].rstrip(_BLANKS), line
        else:  # other blanks, or another number of fields
            fields = line.split()
            count = _count_numbers(fields)
            if count != dim and first and count:
                raise _other_dimension(path, number, dim, count)
            if count == dim:
                yield number, line.rsplit(None, dim)[0].rstrip(_BLANKS), line
            else:
                rejected.update(fields[:1])
                bad_examples.reject(f"{count} numbers after a word, not {dim}", f"{path}:{number}")
        first = False
    if first:
        raise UserError(f"{path}: no vectors in it")


def _split_at_returns(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, split after each CR that follows a number; another one is in a word."""
    for line in lines:
        if b"\r" not in line:
            yield line
            continue
        row: list[bytes] = []
        for segment in line.split(b"\r"):
            row.append(segment)
            if _is_number((segment.rsplit(None, 1) or [b""])[-1]):
                yield b"\r".join(row)
                row = []
        if any(row):
            yield b"\r".join(row)


def _header(line: bytes) -> int | None:
    """The dimension in a header line like word2vec's, or None if the line is a row."""
    fields = line.split(b" ")
    return int(fields[1]) if len(fields) == 2 and all(map(bytes.isdigit, fields)) else None


def _count_numbers(fields: list[bytes]) -> int:
    """The number of numeric fields at the end, without the first field, which is the word."""
    count = 0
    while count < len(fields) - 1 and _is_number(fields[-1 - count]):
        count += 1
    return count


def _is_number(field: bytes) -> bool:
    try:
        return abs(float(field)) <= _LARGEST
    except ValueError:
        return False


def _numbers(line: bytes, dim: int, place: str) -> np.ndarray:
    fields = line.split()[-dim:]
    try:
        vector = np.array(list(map(float, fields)))
    except ValueError:
        vector = np.array([np.nan])
    if not (np.abs(vector) <= _LARGEST).all():  # false for NaN too
        wrong = next(field for field in fields if not _is_number(field))
        raise UserError(f"{place}: {wrong.decode(errors='replace')!r} is not a number")
    return vector.astype(np.float32)


def _other_dimension(path: str | Path, number: int, dim: int, actual: int) -> UserError:
    return UserError(
        f"words.dim={dim}: {path}:{number} has vectors of {actual}; set it to {actual}"
    )


def _encode(word: str) -> bytes:
    """UTF-8; a word with an unpaired surrogate, which no file contains, raises no error."""
    return word.encode("utf-8", "surrogatepass")
