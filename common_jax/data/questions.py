"""Questions about passages from files: JSON of SQuAD's form, or tables in any format.

A table's answers are those of the Hugging Face hub, {"text": [...], "answer_start": [...]}, lists
of {"text", "answer_start"} or of MRQA's {"text", "char_spans"}, or texts, each of which must be in
the passage exactly once; in a table of texts they are JSON, or the text of the only answer.
"""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from common_jax.bad_examples import BadExamples
from common_jax.data.layouts import QUESTIONS, Layout
from common_jax.data.object_rows import READERS, Reader, parent
from common_jax.data.tables import Row, Table
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.io.json_files import Node
from common_jax.text.squad import Squad, SquadRow, read_squad_rows

STARTS = "answer_start"  # the column beside texts of answers
_SPANS = "char_spans"  # MRQA's
_OBJECTS = re.compile(r"""\s*(\{|\[\s*["'])""")  # the start of an object or a list of texts
_NEEDED = f'needs {{"text": [...], "{STARTS}": [...]}}, or texts'


def _read_answers(node: Node, path: tuple[str, ...]) -> Any:
    """The answers, which may be JSON in a text; with the column `STARTS`, if there is one."""
    node = parent(node, path)
    name = path[-1]
    if not isinstance(node.value, dict) or name not in node.value:
        node.get(name, list)  # raises
    value = node.value[name]
    if isinstance(value, str):
        value = _parsed(value, node.place)
    starts = node.value.get(STARTS)
    is_text = isinstance(value, str) and STARTS in node.value
    if is_text or (isinstance(starts, list) and _is_list_of(value, str)):
        return {"text": value, STARTS: starts}
    return value


def _parsed(text: str, place: str) -> Any:
    """The value of a cell with JSON; other texts unchanged, but none of a list or an object."""
    try:
        value = json.loads(text) if text.lstrip().startswith(("{", "[")) else text
    except (ValueError, RecursionError) as error:
        if _OBJECTS.match(text):
            fault = f"not JSON, as json.dumps writes it: {text[:40]!r}"
            raise UserError(f"{place}: answers: {fault}") from error
        return text
    return value if isinstance(value, dict) or _is_list_of(value, dict | str) else text


def _is_list_of(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


@dataclasses.dataclass(frozen=True)
class QuestionTable(Table):
    """A table with a question in each row."""

    layouts: Sequence[Layout] = QUESTIONS
    columns: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    readers: ClassVar[Mapping[str, Reader]] = {**READERS, "answers": _read_answers}
    beside: ClassVar[Sequence[str]] = (STARTS,)

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
        return [table.identity() for table in self.shards]


def read_tables(
    tables: Sequence[QuestionTable], bad_examples: BadExamples, unnamed: str = ""
) -> Squad:
    """The questions of one table or of its shards; `unnamed` is as of `question_rows`."""
    return read_squad_rows(question_rows(tables, bad_examples, unnamed), bad_examples)


def question_rows(
    tables: Sequence[QuestionTable], bad_examples: BadExamples, unnamed: str = ""
) -> Iterator[SquadRow]:
    """The rows of one table or of its shards, each with an id.

    Args:
      unnamed: the start of the id of a question without one, which is its number.
    """
    rows = (row for table in tables for row in table.questions(bad_examples))
    for number, row in enumerate(rows, start=1):
        yield row if row.id else row._replace(id=f"{unnamed}{number}")


def _question(row: Row) -> SquadRow:
    """The question of a row; its id is "" if it has none."""
    fields = row.fields
    place = f"{row.place}: answers"
    context = fields["context"]
    answers = [_answer(value, context, place) for value in _answer_list(fields["answers"], place)]
    name = fields.get("id") or ""
    title = fields.get("title") or ""
    return SquadRow(row.place, name, context, fields["question"], answers, title)


def _answer_list(value: Any, place: str) -> list[Any]:
    """The answers of a row, a list of objects or of texts."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return []

    # Lists by name, as on the hub, become a list of objects.
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        columns = {
            name: value[name] for name in ("text", STARTS, _SPANS) if value.get(name) is not None
        }
        require(all(isinstance(column, list) for column in columns.values()), f"{place}: {_NEEDED}")
        lengths = {name: len(column) for name, column in columns.items()}
        if len({*lengths.values()}) > 1:
            counts = ", ".join(f"{length} of {name}" for name, length in lengths.items())
            raise UserError(f"{place}: lists of different lengths: {counts}")
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return value if isinstance(value, list) else [value]


def _answer(value: Any, context: str, place: str) -> tuple[str, int | None]:
    """The text and the start, if it is given, of an answer."""
    text = value.get("text") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise UserError(f"{place}: {_NEEDED}")
    start = value.get(STARTS) if isinstance(value, dict) else None
    if isinstance(value, dict) and start is None and value.get(_SPANS):
        return _answer_of_span(text, value[_SPANS], context, place)
    if start is None or start == "":
        return text, None
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
            start = spans["start"][0]
            end = spans["end"][0]
        else:
            first = spans[0]
            start, end = (first["start"], first["end"]) if isinstance(first, dict) else first
        in_context = context[start : end + 1]
    except (LookupError, TypeError, ValueError) as error:
        raise UserError(f"{place}: {_SPANS}: needs [[start, end], ...]") from error
    return (in_context if in_context.casefold() == text.casefold() else text), start
