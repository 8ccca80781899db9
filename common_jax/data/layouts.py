"""Known layouts of tables: the columns that published corpora and common tools use.

A layout's columns are names, or paths into nested ones ("translation.de"), in lower case. The first
layout of a family of which a table has all columns is used.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


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
