"""Text interface of the sentence classifier: encodes text, formats labels; imports no model."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int32, Num

from attconv_jax.data import LABELS
from attconv_jax.data.text import TEXTS, tokenize
from common_jax.columns import Quotes
from common_jax.data import layouts
from common_jax.data.padding import Group, groups, padded
from common_jax.deploy.answer import Answer, AttentionMap
from common_jax.deploy.predictor import (
    MIN_PROBABILITY,
    CompiledFunctions,
    Option,
    Predictor,
    checked_probability,
    outputs_of,
)
from common_jax.deploy.schema import UNKNOWN_WORDS, Schema, Text, View, json_schema
from common_jax.errors import Location, UserError, error_context
from common_jax.fields import require, split_list
from common_jax.inputs import columns_of, encode, inputs_from_text, padded_inputs
from common_jax.metrics.classification import log_odds
from common_jax.text.cleaning import clean
from common_jax.text.vocabulary import Vocabulary

_LEAST = np.finfo(np.float32).smallest_subnormal  # of a probability, where it is rounded to 0


class Request(NamedTuple):
    """An input line.

    Attributes:
      texts: the words of each text.
      arrays: the model's inputs, by name.
    """

    texts: list[tuple[str, ...]]
    arrays: dict[str, Int32[np.ndarray, "..."]]

    @property
    def lengths(self) -> tuple[int, ...]:
        """The number of words of each text."""
        return tuple(map(len, self.texts))


@dataclasses.dataclass(frozen=True, eq=False)
class Label(Answer):
    """The label of a text or a pair.

    Attributes:
      label: the most probable one; of equally probable ones the first of the run's; "" if it is
        less probable than `min_probability`.
      probabilities: by label, with six digits.
      score: log P - log(1 - P) of the label, in a ranking of "yes", by which sentences are ranked;
        with all digits, as probabilities are rounded to 1.
      unknown_words: number of words that are not in the vocabulary.
      words: of each text; only with `explain`, like the next.
      layers: the attention maps of each layer.
    """

    label: str
    probabilities: dict[str, float]
    score: float
    unknown_words: int
    words: list[list[str]] | None = None
    layers: list[list[AttentionMap]] | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """The fields, and instead of `probabilities` a column for each label."""
        fields = self.to_dict()
        by_label = {f"probability_{name}": p for name, p in fields.pop("probabilities").items()}
        return {"label": fields.pop("label"), **by_label, **fields}


class SentenceClassifier(Predictor):
    """Labels lines, each a text or two texts separated by a tab."""

    options = (
        MIN_PROBABILITY,
        Option("explain", bool, "also the attention weights", detail=True),
    )

    @dataclasses.dataclass(frozen=True)
    class Settings:
        """The predictor's part of a run's config.

        Attributes:
          labels: in the order of their ids, separated by commas (`split_list`).
          texts: number of texts of an example, 1 or 2.
          eval_batch_tokens: size of a batch in words of the longer text.
          inputs: the model's inputs beside words (`common_jax.inputs.inputs_to_text`).
          ranking: whether the texts are a question and a sentence, which is ranked by the
            log-odds of "yes".
          max_length: longest text of training in words; 0 if unknown.
          escaped_breaks: as of `DataConfig`; True in earlier versions.
          quotes: of tables, as of `DataConfig`.
          columns: of tables, as of `Schema`.
        """

        labels: str
        texts: int
        eval_batch_tokens: int
        inputs: str = ""
        ranking: bool = False
        max_length: int = 0
        escaped_breaks: bool = True
        quotes: Quotes = "auto"
        columns: str = ""

        def __post_init__(self):
            require(self.texts in (1, 2), f"texts={self.texts}: 1 or 2")
            size = self.eval_batch_tokens
            require(size >= 1, f"eval_batch_tokens={size}: at least 1")
            inputs_from_text(self.inputs)

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: Settings,
        programs: CompiledFunctions,
        *,
        min_probability: float | None = None,
        explain: bool = False,
    ):
        """
        Args:
          programs: from `attconv_jax.data.text.TEXTS`, [B, T] each, and the model's inputs to the
            arrays of `SentenceClassification.serve`.
          min_probability: of a label; "" is answered instead of a less probable one.
          explain: whether to return attention weights.

        Raises:
          UserError: for `min_probability` of a ranking.
        """
        if settings.ranking and min_probability is not None:
            raise UserError("min_probability: a ranking orders sentences, and leaves none out")
        self._least = checked_probability(min_probability)
        self._vocabulary = vocabulary
        self._settings = settings
        self._explain = explain
        self._labels = split_list(settings.labels, "labels")
        further = inputs_from_text(settings.inputs)
        self._columns = columns_of(further, TEXTS[: settings.texts])
        self._at_once = programs.at_once
        try:  # without attention weights, which are large for long texts
            self._classify = programs() if explain else programs(maps=0)
        except UserError:  # an export has one program
            self._classify = programs()

    @classmethod
    def read_vocabulary(cls, folder: Path) -> Vocabulary:
        return Vocabulary.load(folder)

    @classmethod
    def tables(cls, vocabulary: Vocabulary) -> dict[str, int]:
        return dict.fromkeys(("word_embedding", "second_word_embedding"), vocabulary.size)

    def answers(self, requests: Sequence[Request]) -> Iterator[Label]:
        answers: dict[int, Label] = {}
        lengths = [request.lengths for request in requests]
        batches = [*groups(lengths, self._settings.eval_batch_tokens)]
        members = [[requests[at] for at in group.members] for group in batches]
        arrays = map(self._arrays, members, batches)
        results = outputs_of(self._classify, arrays, self._at_once, ["probabilities"])
        for group, pairs, outputs in zip(batches, members, results, strict=True):
            answers |= zip(group.members, self._labelled(pairs, outputs), strict=True)
        return (answers[at] for at in range(len(requests)))

    @property
    def longest(self) -> tuple[int, ...]:
        return (self._settings.max_length,) * self._settings.texts

    @property
    def schema(self) -> Schema:
        settings = self._settings
        schema = schema_of(settings.texts, settings.ranking)
        return dataclasses.replace(
            schema,
            escaped_breaks=settings.escaped_breaks,
            quotes=settings.quotes,
            columns=settings.columns,
        )

    def parse(self, line: str, place: str | Location) -> Request:
        """The words of a line's texts, and the arrays of the model's inputs."""
        count = self._settings.texts
        texts = [clean(text) for text in (line.split("\t") if count == 2 else [line])]
        if len(texts) != count:
            raise UserError(f"{place}: a pair is 2 texts separated by a tab, not {len(texts)}")
        words = [tokenize(text, self._vocabulary.rule) for text in texts]
        if not all(words):
            raise UserError(f"{place}: a text without a word")
        with error_context(place):
            texts_by_name = dict(zip(TEXTS, words, strict=False))
            return Request(words, encode(self._columns, texts_by_name, {}))

    def _arrays(self, requests: Sequence[Request], group: Group) -> dict[str, np.ndarray]:
        texts = [request.texts for request in requests]
        columns = zip(TEXTS, zip(*texts, strict=True), group.widths, strict=False)
        arrays = {
            name: padded([self._vocabulary.word_ids(words) for words in column], group.rows, width)
            for name, column, width in columns
        }
        widths = dict(zip(TEXTS, group.widths, strict=False))
        examples = [request.arrays for request in requests]
        return arrays | padded_inputs(self._columns, examples, group.rows, widths)

    def _labelled(self, requests: Sequence[Request], outputs: Mapping[str, Any]) -> Iterator[Label]:
        probabilities = np.asarray(outputs["probabilities"])
        if probabilities.shape[1] != len(self._labels):
            raise UserError(
                f"{probabilities.shape[1]} probabilities for {len(self._labels)} labels"
            )

        # Labels with their log-odds; of a ranking, the log-odds of "yes".
        logits = _logits(outputs, probabilities)
        labels = logits.argmax(axis=1)
        scores = log_odds(logits, LABELS.index("yes") if self._settings.ranking else labels)
        layers = [
            [(int(text), int(context), np.asarray(weights)) for text, context, weights in layer]
            for layer in (outputs["layers"] if self._explain else [])
        ]

        # One answer for each input, without the padding of its batch.
        for row, pair in enumerate(request.texts for request in requests):
            by_label = dict(zip(self._labels, _rounded(probabilities[row]).tolist(), strict=True))
            best = self._labels[labels[row]]
            label = best if by_label[best] >= self._least else ""
            answer = Label(label, by_label, float(scores[row]), self._vocabulary.unknown(*pair))
            if self._explain:
                maps = [[_attention_of(map_, row, pair) for map_ in layer] for layer in layers]
                words = [list(words) for words in pair]
                answer = dataclasses.replace(answer, words=words, layers=maps)
            yield answer


def _logits(
    outputs: Mapping[str, Any], probabilities: Num[np.ndarray, "B labels"]
) -> Float[np.ndarray, "B labels"]:
    """The logits; of exports that have none the logs of the probabilities.

    Raises:
      UserError: for logits of another shape, as a program of an export can return any.
    """
    if "logits" not in outputs:
        return np.log(np.maximum(probabilities.astype(np.float64), _LEAST))
    logits = np.asarray(outputs["logits"], np.float64)
    if logits.shape != probabilities.shape:
        raise UserError(f"the program has logits {logits.shape} and other probabilities")
    return logits


def _attention_of(
    attended: tuple[int, int, np.ndarray], row: int, texts: Sequence[Sequence[str]]
) -> AttentionMap:
    text, context, weights = attended
    words = weights[row, :, : len(texts[context])]
    pooled = text < 0
    rows = words if pooled else words[: len(texts[text])]
    return AttentionMap(None if pooled else text, context, _rounded(rows))


def _rounded(numbers: np.ndarray) -> Float[np.ndarray, "..."]:
    """Rounds in float64, for short JSON numbers."""
    return np.round(np.asarray(numbers, np.float64), 6)


def _columns(known: Sequence[layouts.Layout], field: str) -> tuple[str, ...]:
    """The columns that can be a text, as in training data."""
    return tuple(dict.fromkeys(name for layout in known for name in layout.columns[field]))


_LABEL = (
    View("text", "label", "Label"),
    View("table", "probabilities", "Probabilities"),
    UNKNOWN_WORDS,
    View("words", "layers", "Attended words", of="words"),
)
_REVIEWS = Schema(
    title="Texts and labels (AttentiveConvNet)",
    about="Labels a text, such as a review.",
    texts=(
        Text(
            "text",
            "Text",
            lines=6,
            columns=_columns(layouts.TEXTS, "text"),
            hint="a text to label",
        ),
    ),
    output=json_schema(Label),
    views=_LABEL,
    generated="It is trained on generated reviews of places, which name two aspects.",
)
_PAIRS = Schema(
    title="Pairs and labels (AttentiveConvNet)",
    about="Labels a pair of texts, such as whether the second follows from the first.",
    texts=(
        Text(
            TEXTS[0],
            "First text",
            columns=_columns(layouts.PAIRS, TEXTS[0]),
            hint="the first text of a pair",
        ),
        Text(
            TEXTS[1],
            "Second text",
            columns=_columns(layouts.PAIRS, TEXTS[1]),
            hint="the second text",
        ),
    ),
    line="tab",
    output=json_schema(Label),
    views=_LABEL,
    generated="It is trained on generated pairs about the numbers and colours of things in places.",
    outside=("A man rides a horse on the beach.", "A person is outdoors."),
)
_RANKING = Schema(
    title="Answer selection (AttentiveConvNet)",
    about="Orders sentences by how well they answer a question.",
    texts=(
        Text(
            TEXTS[0],
            "Question",
            lines=2,
            columns=_columns(layouts.RANKING, "question"),
            hint="a question",
        ),
        Text(
            TEXTS[1],
            "Sentences, one a line",
            lines=8,
            several=True,
            columns=_columns(layouts.RANKING, "sentence"),
            hint="sentences that may answer it",
        ),
    ),
    line="tab",
    output=json_schema(Label),
    views=(View("ranking", "probabilities", "Sentences", of=LABELS[1]),),
)


def schema_of(texts: int, ranking: bool) -> Schema:
    """The schema for examples of one or two texts, or for a ranking."""
    return _RANKING if ranking else _REVIEWS if texts == 1 else _PAIRS
