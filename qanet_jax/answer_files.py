"""Files of answers to questions: {id: answer}, or rows of `id` and `answer` (`launch.predict`)."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from common_jax.bad_examples import BadExamples
from common_jax.data.object_rows import ObjectFile, reader
from common_jax.data.table_format import format_of
from common_jax.data.text_rows import TextFile
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.io.files import read_raw_lines
from common_jax.io.json_files import Node, json_form, read_json

_SEPARATOR = "\t"
_IDS = ("id", "qid")  # as in tables of questions
_NEEDED = "needs one object, {id: answer, ...}, or rows of id and answer"


def read_predictions(path: str | Path) -> dict[str, str]:
    """The answers by question id of a file {id: answer}, or of a table in any format.

    Of a table that `launch.predict` wrote, questions that have an error instead of an answer are
    left out, and `predicted_answer` is read where the questions had a column `answer`.

    Raises:
      UserError: if the file cannot be read or is malformed, or an id is missing or repeated.
    """
    first = next((line for line in read_raw_lines(path) if line.strip()), b"")
    if first.lstrip().startswith(b"{") and json_form(path) == "value":
        node = read_json(path)
        if "answer" not in node.value:  # else the only row
            return _of_object(node)
    return _of_rows(path)


def _of_object(node: Node) -> dict[str, str]:
    """The answers of an object {id: answer}."""
    wrong = next((key for key, text in node.value.items() if type(text) is not str), None)
    if wrong is not None:
        raise UserError(f"{node.place}: the answer of {wrong!r} is not a string")
    return node.value


def _of_rows(path: str | Path) -> dict[str, str]:
    """The answers of a table."""
    # The columns: answers and errors have the names that no column of the questions had.
    rows = [*_rows(Path(path))]
    names = list(dict.fromkeys(name for row in rows for name in row.value))
    answer, error = (_last_named(column, names) for column in ("answer", "error"))
    known = (name for wanted in _IDS for name in names if name.lower() == wanted)
    key_name = next(known, _IDS[0])
    if answer is None and error is None:
        listed = ", ".join(names)[:200] or "no row"
        raise UserError(f"{path}: {_NEEDED}; it has {listed}")

    # The answers, without those of questions that could not be answered.
    answers: dict[str, str] = {}
    for row in rows:
        if row.value.get(error):
            both = f"{row.place}: has both {answer} and {error}; leave out one of these columns"
            require(not row.value.get(answer), both)
            continue
        key = reader("id")(row, (key_name,))
        require(bool(key), f"{row.place}: {key_name}: empty")
        require(key not in answers, f"{row.place}: repeats the id {key!r}")
        answers[key] = row.get(answer or "answer", str)
    return answers


def _rows(path: Path) -> Iterator[Node]:
    """The rows of a table as objects."""
    bad_examples = BadExamples("error", option="")
    form = format_of(path, _SEPARATOR)

    # Formats of objects.
    if form in ("parquet", "json", "jsonl"):
        for node in ObjectFile(path, form).rows(bad_examples):
            require(isinstance(node.value, dict), f"{node.place}: {_NEEDED}")
            yield node
        return

    # Tables: the first row that is not empty has the columns' names.
    header: list[str] = []
    for line, cells in TextFile(path, form == "csv", _SEPARATOR).rows(bad_examples):
        location = f"{path}:{line}"
        if not any(map(str.strip, cells)):
            continue
        if not header:
            header = [cell.strip() for cell in cells]
            repeated = next((name for name in header if header.count(name) > 1), None)
            several = f"{location}: several columns are named {repeated!r}; rename one of them"
            require(repeated is None, several)
            continue
        counts = f"{location}: {len(cells)} columns where {len(header)} are needed"
        require(len(cells) == len(header), counts)
        yield Node(dict(zip(header, cells, strict=True)), location)


def _last_named(column: str, names: Iterable[str]) -> str | None:
    """The name that `launch.predict` gave a column beside those of the questions; None if there is
    none: it puts "predicted_" in front until no column has the name."""
    candidates = [name for name in names if re.fullmatch(f"(predicted_)*{column}", name)]
    return max(candidates, key=len, default=None)
