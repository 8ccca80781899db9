"""Tokenized texts with offsets, windows, and the model's input arrays."""

import bisect
import dataclasses
import json
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Shaped

from common_jax.text.squad import Answer
from common_jax.text.vocabulary import Vocabulary
from common_jax.text.word_tokenizer import Rule, split_words
from qanet_jax.metrics import exact_match

TEXTS = ("context", "question")


@dataclasses.dataclass(frozen=True)
class TokenizedText:
    """A tokenized text.

    Attributes:
      words: as in the text.
      spans: start and end of each word, in characters.
    """

    words: list[str]
    spans: list[tuple[int, int]]

    @classmethod
    def of(cls, text: str, rule: Rule) -> "TokenizedText":
        """The words of a text, split by a rule."""
        spans = split_words(text, rule)
        return cls([text[start:end] for start, end in spans], spans)

    def part(self, start: int, stop: int) -> "TokenizedText":
        """The words from `start` to `stop`, with their spans in the complete text."""
        return TokenizedText(self.words[start:stop], self.spans[start:stop])

    def locate(self, answer: Answer) -> tuple[int, int] | None:
        """The first and last word that overlap an answer; None if no word does."""
        end = answer.start + len(answer.text)
        first = bisect.bisect_right(self.spans, answer.start, key=lambda span: span[1])
        last = bisect.bisect_left(self.spans, end, key=lambda span: span[0]) - 1
        return (first, last) if first <= last else None


def unreachable(context: str, words: TokenizedText, answers: Sequence[Answer]) -> str:
    """A message with the first gold answer and the words around it, if no words of the context
    match any answer exactly; else "".

    Args:
      words: of the context.
    """
    texts = []
    for answer in answers:
        span = words.locate(answer)
        start, end = (words.spans[span[0]][0], words.spans[span[1]][1]) if span else (0, 0)
        texts.append(context[start:end])
        if exact_match(texts[-1], [answer.text]):
            return ""
    return f"{answers[0].text[:60]!r} in {texts[0][:60]!r}" if texts else ""


def input_line(context: str, question: str) -> str:
    """A question as a line for the predictor."""
    return json.dumps({"context": context, "question": question})


def windows(length: int, window: int, stride: int) -> list[tuple[int, int]]:
    """Start and stop of windows that cover `length` words.

    Each starts `stride` words after the previous one; the last ends with the text.
    """
    starts = range(0, max(1, length - window + stride), stride)
    return [(start, min(start + window, length)) for start in starts]


def text_arrays(
    name: str,
    words: Int[np.ndarray, "B width"],
    characters: Int[np.ndarray, "B width W"],
    vocabulary: Vocabulary,
) -> dict[str, Shaped[np.ndarray, "B ..."]]:
    """The arrays of a batch for the text `name`."""
    arrays = {name: words, f"{name}_characters": characters}
    if vocabulary.table is not None:
        arrays[f"{name}_vectors"] = vocabulary.vectors(words)
    return arrays
