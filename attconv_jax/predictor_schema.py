"""Schemas of the sentence classifier's inputs and outputs: pairs, reviews and rankings."""

import dataclasses
from collections.abc import Sequence

from attconv_jax.data import LABELS
from attconv_jax.data.text import TEXTS
from common_jax.data import layouts
from common_jax.deploy.schema import (
    ATTENTION_MAP,
    NUMBER,
    NUMBERS_BY_NAME,
    STRING,
    Schema,
    Text,
    View,
    array,
    record,
)


def _columns(known: Sequence[layouts.Layout], field: str) -> tuple[str, ...]:
    """The columns that can be a text, as in training data."""
    return tuple(dict.fromkeys(name for layout in known for name in layout.columns[field]))


_OUTPUT = record(
    {"label": STRING, "probabilities": NUMBERS_BY_NAME, "score": NUMBER},
    words=array(STRING, dims=2),
    layers=array(ATTENTION_MAP, dims=2),
)
_LABEL = (
    View("text", "label", "Label"),
    View("table", "probabilities", "Probabilities"),
    View("words", "layers", "Attended words", of="words"),
)
_REVIEWS = Schema(
    title="Reviews",
    texts=(Text("text", "Text", lines=6, columns=_columns(layouts.TEXTS, "text")),),
    output=_OUTPUT,
    views=_LABEL,
    examples=(
        (
            "The rooms were not good. The food was superb. What I care about is the food and the "
            "service. The service, to be honest, was average.",
        ),
        ("The coffee was awful, and the terrace really nice. Only the coffee matters to me.",),
    ),
)
_PAIRS = Schema(
    title="Sentence pairs",
    texts=(
        Text(TEXTS[0], "First text", columns=_columns(layouts.PAIRS, TEXTS[0])),
        Text(TEXTS[1], "Second text", columns=_columns(layouts.PAIRS, TEXTS[1])),
    ),
    line="tab",
    output=_OUTPUT,
    views=_LABEL,
    examples=(
        ("There are two red cups in the shed.", "The shed has no red cups."),
        ("There are two red cups in the shed.", "The shed has more than one red cup."),
        ("A man rides a horse on the beach.", "A person is outdoors."),
    ),
)
_RANKING = Schema(
    title="Answer selection",
    texts=(
        Text(TEXTS[0], "Question", lines=2, columns=_columns(layouts.RANKING, "question")),
        Text(
            *(TEXTS[1], "Sentences, one a line"),
            lines=8,
            several=True,
            columns=_columns(layouts.RANKING, "sentence"),
        ),
    ),
    line="tab",
    output=_OUTPUT,
    views=(View("ranking", "probabilities", "Sentences", of=LABELS[1]),),
    examples=(
        (
            "Where does Ada live?",
            "Rome has many bakers.\nAda has lived in Rome since 1950.\n"
            "Ben, her brother, is a painter.",
        ),
    ),
)


def schema_of(texts: int, ranking: bool, escaped_breaks: bool = False) -> Schema:
    """The schema for examples of one or two texts, or for a ranking.

    Args:
      escaped_breaks: of the training data (`DataConfig`).
    """
    schema = _RANKING if ranking else _REVIEWS if texts == 1 else _PAIRS
    return dataclasses.replace(schema, escaped_breaks=escaped_breaks)
