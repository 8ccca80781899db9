"""A trained judge of anybody's texts: the half of it that reads and writes text."""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int32

from attconv_jax.data.text import TEXTS, tokenize
from common_jax.data.requests import Group, groups, padded
from common_jax.errors import UserError, error_context
from common_jax.fields import require
from common_jax.inputs import columns_of, encode, inputs_from_text
from common_jax.predictor import CompiledFunctions, Option, Predictor
from common_jax.text.vocabulary import Vocabulary


class Request(NamedTuple):
    """A line.

    Attributes:
      texts: the words of each.
      arrays: of the model's inputs, by name.
    """

    texts: list[tuple[str, ...]]
    arrays: dict[str, Int32[np.ndarray, "..."]]


class SentenceClassifier(Predictor):
    """Labels lines: a text each, or a pair parted by a tab."""

    CHUNK = 512  # lines read before the first is answered

    options = (Option("explain", bool, "also the attention weights"),)

    @dataclasses.dataclass(frozen=True)
    class Settings:
        """What it needs of a run's config.

        Attributes:
          labels: by number, with commas between.
          texts: of an example, 1 or 2.
          eval_batch_tokens: words of the longer texts that are read together.
          inputs: what the model reads beside words (`common_jax.inputs.inputs_to_text`).
        """

        labels: str
        texts: int
        eval_batch_tokens: int
        inputs: str = ""

        def __post_init__(self):
            require(self.texts in (1, 2), f"texts={self.texts}: 1 or 2")
            positions = self.eval_batch_tokens
            require(positions >= 1, f"eval_batch_tokens={positions}: at least 1")

    def __init__(
        self,
        vocabulary: Vocabulary,
        settings: Settings,
        programs: CompiledFunctions,
        *,
        explain: bool = False,
    ):
        """
        Args:
          programs: `attconv_jax.data.text.TEXTS`, [B, T] each, and the arrays of the model's
            inputs give `SentenceClassification.serve`'s.
          explain: also say which words attended to which.
        """
        self._vocabulary, self._settings, self._explain = vocabulary, settings, explain
        self._labels = settings.labels.split(",")
        inputs = inputs_from_text(settings.inputs, "settings.inputs")
        self._columns = columns_of(inputs, TEXTS[: settings.texts])
        self._judge = programs()

    @classmethod
    def read_vocabulary(cls, folder: Path) -> Vocabulary:
        return Vocabulary.load(folder)

    def predict(self, lines: Iterable[str], source: str = "lines") -> Iterator[str]:
        """A JSON object for each line: its label and the probability of each label; with `explain`
        also the `words` of its texts and, by layer, who attended to whom: the numbers of the
        `text` (null where the rows are no words but weighted sums of the context) and of the
        `context` it looked at, and the `weights`, a row for each word."""
        numbered = enumerate(lines, start=1)
        while chunk := list(itertools.islice(numbered, self.CHUNK)):
            requests = [self._request(line, f"{source}:{number}") for number, line in chunk]
            yield from self._answers(requests)

    def _request(self, line: str, place: str) -> Request:
        """The words of a line's texts, and the arrays of the model's inputs."""
        wanted = self._settings.texts
        texts = line.split("\t") if wanted == 2 else [line]
        if len(texts) != wanted:
            raise UserError(f"{place}: a pair is 2 texts parted by a tab, not {len(texts)}")
        words = [tokenize(text) for text in texts]
        if not all(words):
            raise UserError(f"{place}: a text without a word")
        with error_context(place):
            return Request(words, encode(self._columns, dict(zip(TEXTS, words, strict=False)), {}))

    def _answers(self, requests: Sequence[Request]) -> list[str]:
        """Texts of like lengths are judged together."""
        answers = [""] * len(requests)
        lengths = [tuple(map(len, request.texts)) for request in requests]
        for group in groups(lengths, self._settings.eval_batch_tokens):
            found = self._judged([requests[at] for at in group.members], group)
            for at, answer in zip(group.members, found, strict=True):
                answers[at] = json.dumps(answer, ensure_ascii=False)
        return answers

    def _judged(self, requests: Sequence[Request], group: Group) -> Iterator[dict[str, Any]]:
        """Answers, one after the other."""
        texts = [request.texts for request in requests]
        columns = zip(TEXTS, zip(*texts, strict=True), group.widths, strict=False)
        arrays = {
            name: padded([self._vocabulary.word_ids(words) for words in column], group.rows, width)
            for name, column, width in columns
        }
        widths = dict(zip(TEXTS, group.widths, strict=False))
        for column in self._columns:
            own = [request.arrays[column.name] for request in requests]
            arrays[column.name] = column.padded(own, group.rows, widths.get(column.text, 0))
        found = self._judge(arrays)
        likely = np.asarray(found["probabilities"])
        if likely.shape[1] != len(self._labels):
            raise UserError(f"{likely.shape[1]} probabilities for {len(self._labels)} labels")
        layers = [
            [(int(text), int(context), np.asarray(weights)) for text, context, weights in layer]
            for layer in (found["layers"] if self._explain else [])
        ]
        for row, pair in enumerate(texts):
            chances = dict(zip(self._labels, _rounded(likely[row], 6), strict=True))
            answer: dict[str, Any] = {"label": max(chances, key=chances.__getitem__)}
            answer["probabilities"] = chances
            if self._explain:
                answer["words"] = [list(words) for words in pair]
                answer["layers"] = [[_looked(a, row, pair) for a in layer] for layer in layers]
            yield answer


def _looked(
    attended: tuple[int, int, np.ndarray], row: int, texts: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """What the words of one text of an example saw of another's."""
    text, context, weights = attended
    words, pooled = weights[row, :, : len(texts[context])], text < 0
    shown = words if pooled else words[: len(texts[text])]
    return {
        "text": None if pooled else text,
        "context": context,
        "weights": _rounded(shown, 4),
    }


def _rounded(numbers: np.ndarray, digits: int) -> list[Any]:
    """As JSON has them short: not the nearest numbers of 32 bits."""
    return np.round(np.asarray(numbers, np.float64), digits).tolist()
