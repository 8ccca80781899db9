"""Known layouts of tables: the columns that published corpora and common tools use.

A layout's columns are names, or paths into nested ones ("translation.de"), in lower case. The first
layout of a family of which a table has all columns is used.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from common_jax.fields import require

_NAME = re.compile(r"[^\W\d_][\w-]*")  # of a column

_log = logging.getLogger(__name__)


class Layout(NamedTuple):
    """Columns by which a table is recognised.

    Attributes:
      name: of its corpora, for the log.
      columns: the possible columns of each field, in the fields' order; the first is that of the
        corpus's own JSON lines.
      optional: the possible columns of optional fields.
      rows: a column with a list of objects, each of which is an example, together with the other
        columns of its row; "" if a row is an example.
    """

    name: str
    columns: Mapping[str, Sequence[str]]
    optional: Mapping[str, Sequence[str]] = {}
    rows: str = ""

    @property
    def first_columns(self) -> dict[str, str]:
        """The first of the possible columns of each field."""
        return {field: columns[0] for field, columns in self.columns.items()}


_LABEL = ("label", "gold_label", "stars", "class", "rating", "sentiment")

PAIRS = (
    Layout(
        "SNLI, MultiNLI",
        {
            "label": ("gold_label", *(name for name in _LABEL if name != "gold_label")),
            "first": ("sentence1", "first", "premise", "text1"),
            "second": ("sentence2", "second", "hypothesis", "text2"),
        },
    ),
)
TEXTS = (
    Layout(
        "Yelp",
        {
            "label": ("stars", *(name for name in _LABEL if name != "stars")),
            "text": ("text", "review", "sentence"),
        },
    ),
)

_QUESTION_IDS = ("question_id", "questionid", "qid")  # not "id", which may be the row's
_TITLES = ("document_title", "documenttitle", "title")


def _ranking(name: str, sentence: str, label: str) -> Layout:
    columns = {"question": ("question",), "sentence": (sentence,), "label": (label,)}
    return Layout(name, columns, {"id": _QUESTION_IDS, "title": _TITLES})


RANKING = (
    _ranking("WikiQA's own files", "sentence", "label"),
    _ranking("WikiQA", "answer", "label"),
    _ranking("sentences with answer as label", "sentence", "answer"),
)
QUESTIONS = (
    Layout(
        "MRQA, an answer's offsets in detected_answers",
        {
            "context": ("context",),
            "question": ("question",),
            "answers": ("detected_answers",),
        },
        {"id": ("qid", "id"), "title": ("title",)},
    ),
    Layout(
        "MRQA's own files",
        {
            "context": ("context",),
            "question": ("qas.question",),
            "answers": ("qas.detected_answers",),
        },
        {"id": ("qas.qid", "qas.id"), "title": ("title",)},
        rows="qas",
    ),
    Layout(
        "SQuAD",
        {
            "context": ("context",),
            "question": ("question",),
            "answers": ("answers",),
        },
        {"id": ("id", "qid"), "title": ("title",)},
    ),
)


def translation(languages: Sequence[str]) -> tuple[Layout, ...]:
    """The layouts of sentence pairs in a source and a target language."""
    sides = zip(("source", "target"), ("src", "tgt"), languages, strict=True)
    columns = {
        side: (side, short, *((code.lower(), f"translation.{code.lower()}") if code else ()))
        for side, short, code in sides
    }
    return (Layout("WMT", columns),)


class KnownColumns(NamedTuple):
    """A layout, and the table's name of the column of each of its fields."""

    layout: Layout
    columns: dict[str, str]


def known_columns(
    layouts: Sequence[Layout], names: Sequence[str], place: str, advice: str
) -> KnownColumns | None:
    """The first layout of which a table with these names has all columns.

    Args:
      place, advice: for messages.

    Raises:
      UserError: if a field can be several of the columns.
    """
    for layout in layouts:
        at = {field: matching_names(columns, names) for field, columns in layout.columns.items()}
        if not all(at.values()):
            continue
        for field, matching in at.items():
            several = (
                f"{place}: several columns can be the {field}: {', '.join(matching)}; {advice}"
            )
            require(len(matching) == 1, several)
        return KnownColumns(layout, {field: matching[0] for field, matching in at.items()})
    return None


def has_names(layouts: Sequence[Layout], names: Sequence[str]) -> bool:
    """Whether names have a column for each field of a layout."""
    return any(
        all(matching_names(columns, names) for columns in layout.columns.values())
        for layout in layouts
    )


def matching_names(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names that are one of the columns, which are in lower case."""
    return [name for name in names if name.lower() in columns]


def optional_columns(
    optional: Mapping[str, Sequence[str]], fields: Mapping[str, Any], names: Sequence[str]
) -> dict[str, str]:
    """The column of each optional field that the table has and `fields` does not."""
    lower = {name.lower(): name for name in reversed(names)}
    return {
        field: next(lower[column] for column in columns if column in lower)
        for field, columns in optional.items()
        if field not in fields and any(column in lower for column in columns)
    }


def log_columns(path: Path, layout: str, chosen: Mapping[str, str], names: Sequence[str]) -> None:
    """Logs which of a table's columns are read.

    Args:
      layout: the known one; "" without.
      chosen: the column of each field.
    """
    roots = {name if name in names else name.split(".")[0] for name in chosen.values()}
    pairs = ", ".join(f"{field} = {column}" for field, column in chosen.items())
    left_out = ", ".join(name for name in names if name not in roots)[:200]
    _log.info(
        "%s: %s%s%s",
        *(path, f"columns as in {layout}: " if layout else "", pairs),
        f"; not read: {left_out}" if left_out else "",
    )


def are_names(cells: Sequence[str]) -> bool:
    """Whether all cells could be names of a header."""
    return all(_NAME.fullmatch(cell.strip()) for cell in cells)
