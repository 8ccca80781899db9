"""Answers from the outputs of a context's windows."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Num

from qanet_jax.data.text import TokenizedText


@dataclasses.dataclass(frozen=True)
class PredictedSpan:
    """A predicted answer.

    Attributes:
      text: context[start:end].
      start, end: offsets in the context, in characters.
      probability: p1 p2 of its first and last word over the complete context; a word in several
        windows has its largest logits.
    """

    text: str
    start: int
    end: int
    probability: float


class Reading:
    """Joins the outputs of a context's windows."""

    def __init__(self, text: str, context: TokenizedText):
        self._text, self._context = text, context
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
        """The best answers, best first."""
        total = np.logaddexp.reduce(self._logits, axis=1).sum()
        words, answers = self._context.spans, []
        for span in sorted(self._scores, key=lambda span: -self._scores[span])[:count]:
            start, end = words[span[0]][0], words[span[1]][1]
            probability = min(1.0, float(np.exp(self._scores[span] - total)))  # rounded scores
            answers.append(PredictedSpan(self._text[start:end], start, end, probability))
        return answers

    def pointers(self) -> dict[str, Any]:
        """The words and their probabilities as first and last word of the answer, for JSON."""
        totals = np.logaddexp.reduce(self._logits, axis=1, keepdims=True)
        first, last = np.round(np.exp(self._logits - totals), 6).tolist()
        return {"words": self._context.words, "first": first, "last": last}


def as_json(span: PredictedSpan) -> dict[str, Any]:
    """An answer with its place and probability, as predictions have it."""
    return {
        "answer": span.text,
        "start": span.start,
        "end": span.end,
        "probability": round(span.probability, 6),
    }
