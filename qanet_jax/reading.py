"""Combines the outputs of a context's windows into answers."""

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Num

from common_jax.deploy.answer import Answer, AttentionMap
from qanet_jax.data.text import TokenizedText

OUTPUTS = ("start", "end", "first", "last", "score")  # that a `Reading` needs


@dataclasses.dataclass(frozen=True)
class PredictedSpan:
    """A predicted answer.

    Attributes:
      answer: context[start:end].
      start, end: offsets in the context, in characters.
      probability: p1 p2 of its first and last word over the complete context; a word in several
        windows has its largest logits.
    """

    answer: str
    start: int
    end: int
    probability: float

    @property
    def rounded(self) -> "PredictedSpan":
        """With the probability rounded to six digits, for JSON."""
        return dataclasses.replace(self, probability=round(self.probability, 6))


@dataclasses.dataclass(frozen=True)
class Pointers:
    """The words of a context and their probabilities as the first and the last of the answer."""

    words: list[str]
    first: Float[np.ndarray, "T"]
    last: Float[np.ndarray, "T"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SpanAnswer(Answer):
    """The best answer to a question.

    Attributes:
      id: of the line, if it has one.
      answer, start, end, probability: as of `PredictedSpan`; if it is less probable than
        `min_probability`, the answer is "", and the end its start.
      next: the next best answers.
      unknown_words: number of words of both texts that are not in the vocabulary.
      pointers: only with `explain`, like the next two.
      words: of the context and of the question; None without attention, as in exports.
      layers: context-query attention, one map; text 0 is the context, 1 the question.
    """

    id: str | int | None = None
    answer: str
    start: int
    end: int
    probability: float
    next: list[PredictedSpan]
    unknown_words: int
    pointers: Pointers | None = None
    words: list[list[str]] | None = None
    layers: list[list[AttentionMap]] | None = None


class Reading:
    """The outputs of a context's windows, combined."""

    def __init__(self, text: str, context: TokenizedText):
        self._text = text
        self._context = context
        self._logits = np.full((2, len(context.words)), -np.inf)  # each word's largest
        self._scores: dict[tuple[int, int], float] = {}  # of spans, by first and last word

    def add(self, start: int, stop: int, outputs: Mapping[str, Num[np.ndarray, "_"]]) -> None:
        """Adds the outputs of `SpanExtraction.decode` for one window."""
        window_logits = self._logits[:, start:stop]
        logits = np.stack([outputs["start"], outputs["end"]])
        np.maximum(window_logits, logits[:, : stop - start], out=window_logits)
        spans = (outputs[name] for name in ("first", "last", "score"))
        for first, last, score in zip(*spans, strict=True):
            if start + last < stop:
                span = start + int(first), start + int(last)
                self._scores[span] = max(self._scores.get(span, -np.inf), float(score))

    def answers(self, count: int) -> list[PredictedSpan]:
        """The best answers, best first; of equal scores the first in the text."""
        largest = self._logits.max(axis=1, keepdims=True)  # -1e30 if all words are masked
        total = np.logaddexp.reduce(self._logits - largest, axis=1).sum()
        words = self._context.spans
        answers = []
        for span in sorted(self._scores, key=lambda span: (-self._scores[span], span))[:count]:
            start = words[span[0]][0]
            end = words[span[1]][1]
            score = self._scores[span] - largest.sum()
            probability = min(1.0, float(np.exp(score - total)))  # rounded scores
            answers.append(PredictedSpan(self._text[start:end], start, end, probability))
        return answers

    def pointers(self) -> Pointers:
        """The words, and their probabilities as first and last word of the answer."""
        logits = self._logits - self._logits.max(axis=1, keepdims=True)
        totals = np.logaddexp.reduce(logits, axis=1, keepdims=True)
        return Pointers(self._context.words, *np.round(np.exp(logits - totals), 6))
