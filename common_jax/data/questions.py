"""Questions about passages from files: JSON of SQuAD's form, or tables in any format.

A table's answers are those of the Hugging Face hub, {"text": [...], "answer_start": [...]}, lists
of {"text", "answer_start"} or of MRQA's {"text", "char_spans"}, or texts, each of which must be in
the passage exactly once; in a table of texts they are JSON, or the text of the only answer.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.bad_examples import BadExamples
from common_jax.data.layouts import QUESTIONS, Layout
from common_jax.data.object_rows import STARTS
from common_jax.data.table_format import ENDINGS
from common_jax.data.tables import Row, Table
from common_jax.errors import UserError
from common_jax.io.files import ending, read_raw_lines
from common_jax.io.json_files import json_form
from common_jax.text.squad import Squad, SquadRow, read_squad_rows

_SPANS = "char_spans"  # MRQA's


@dataclasses.dataclass(frozen=True)
class QuestionTable(Table):
    """A table with a question in each row."""

    layouts: Sequence[Layout] = QUESTIONS
    columns: Mapping[str, int | str] = dataclasses.field(default_factory=dict)

    def example_fault(self, cells: Sequence[str]) -> str:
        """As the base class: questions are never read by the columns' order."""
        return "not surely an example"

    def questions(self, bad_examples: BadExamples) -> Iterator[SquadRow]:
        """The rows, without those that `bad_examples` rejects."""
        for row in self.rows(bad_examples):
            if question := bad_examples.parse(_question, row):
                yield question


@dataclasses.dataclass(frozen=True)
class QuestionTables:
    """The shards of a table, as one source of examples."""

    shards: tuple[QuestionTable, ...]

    @property
    def place(self) -> str:
        return ", ".join(table.place for table in self.shards)

    def identity(self) -> Any:
        return [[table.identity(), *table.columns_identity()] for table in self.shards]


def is_squad(path: Path) -> bool:
    """Whether a file is JSON of SQuAD's form, which any JSON that is no table is taken for."""
    name = ending(path)
    if name == "json" or name not in ENDINGS:
        filled = (line.lstrip() for line in read_raw_lines(path) if line.strip())
        is_json = name == "json" or next(filled, b"{").startswith((b"{", b"["))
        return is_json and json_form(path) == "value"
    return False


def read_tables(
    tables: Sequence[QuestionTable], bad_examples: BadExamples, unnamed: str = ""
) -> Squad:
    """The questions of one table or of its shards.

    Args:
      unnamed: the start of the id of a question without one, which is its number.
    """
    rows = (row for table in tables for row in table.questions(bad_examples))
    numbered = enumerate(rows, start=1)
    named = (row if row.id else row._replace(id=f"{unnamed}{number}") for number, row in numbered)
    return read_squad_rows(named, bad_examples)


def _question(row: Row) -> SquadRow:
    """The question of a row; its id is "" if it has none."""
    fields, value = row.fields, row.fields["answers"]
    if isinstance(value, str):  # of a table of texts
        value = _parsed(value, row.place)
    if isinstance(value, str) and STARTS in row.named:
        value = {"text": value, STARTS: row.named[STARTS]}
    context, place = fields["context"], f"{row.place}: answers"
    answers = [_answer(answer, context, place) for answer in _answer_list(value, place)]
    name, title = (fields.get(field) or "" for field in ("id", "title"))
    return SquadRow(row.place, name, context, fields["question"], answers, title)


def _parsed(text: str, place: str) -> Any:
    """The value of a cell with JSON; other texts unchanged."""
    try:
        value = json.loads(text) if text.lstrip().startswith(("{", "[")) else text
    except (ValueError, RecursionError) as error:
        if text.lstrip().startswith("{"):
            raise UserError(f"{place}: answers: not JSON: {text[:40]!r}") from error
        return text
    is_list = isinstance(value, list) and all(isinstance(item, dict | str) for item in value)
    return value if is_list or isinstance(value, dict) else text


def _answer_list(value: Any, place: str) -> list[Any]:
    """The answers of a row, a list of objects or of texts."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        columns = {
            name: value[name] for name in ("text", STARTS, _SPANS) if value.get(name) is not None
        }
        lengths = {name: len(column) for name, column in columns.items()}
        if len({*lengths.values()}) > 1:
            counts = ", ".join(f"{length} of {name}" for name, length in lengths.items())
            raise UserError(f"{place}: lists of different lengths: {counts}")
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return value if isinstance(value, list) else [value]


def _answer(value: Any, context: str, place: str) -> tuple[str, int]:
    """The text and the start of an answer."""
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise UserError(f'{place}: needs {{"text": [...], "{STARTS}": [...]}}, or texts')
    start = value.get(STARTS) if isinstance(value, dict) else None
    if isinstance(value, dict) and start is None and value.get(_SPANS):
        return _answer_of_span(text, value[_SPANS], context, place)
    if start is None or start == "":
        if (count := context.count(text)) != 1:
            raise UserError(
                f"{place}: {text[:60]!r} is {count} times in the context; give {STARTS}"
            )
        return text, context.index(text)
    try:
        if isinstance(start, bool) or float(start) != int(float(start)):
            raise ValueError
    except (TypeError, ValueError) as error:
        raise UserError(f"{place}: {STARTS}: {start!r:.40} is no whole number") from error
    return text, int(float(start))


def _answer_of_span(text: str, spans: Any, context: str, place: str) -> tuple[str, int]:
    """The first of MRQA's spans, [[start, end], ...] or on the hub {"start": [...], "end": [...]}
    with inclusive ends; the text from the context if it differs in case only."""
    try:
        if isinstance(spans, dict):
            start, end = spans["start"][0], spans["end"][0]
        else:
            first = spans[0]
            start, end = (first["start"], first["end"]) if isinstance(first, dict) else first
        in_context = context[start : end + 1]
    except (LookupError, TypeError, ValueError) as error:
        raise UserError(f"{place}: {_SPANS}: needs [[start, end], ...]") from error
    return (in_context if in_context.casefold() == text.casefold() else text), start
