"""A trained judge of anybody's texts: the half of it that reads and writes text."""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attconv_jax.data.text import TEXTS, tokenize
from common_jax.data.requests import Group, groups, padded
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.predictor import Option, Predictor, Programs
from common_jax.text.lexicon import Lexicon


class Judge(Predictor):
    """Labels lines: a text each, or a pair parted by a tab."""

    CHUNK = 512  # lines read before the first is answered

    options = (Option("explain", bool, "also the attention weights"),)

    @dataclasses.dataclass(frozen=True)
    class Settings:
        """What it needs of a run's config.

        Attributes:
          labels: by number, with commas between.
          texts: of an example, 1 or 2.
          evaluation_positions: words of the longer texts that are read together.
        """

        labels: str
        texts: int
        evaluation_positions: int

        def __post_init__(self):
            require(self.texts in (1, 2), f"texts={self.texts}: 1 or 2")
            positions = self.evaluation_positions
            require(positions >= 1, f"evaluation_positions={positions}: at least 1")

    def __init__(
        self, vocabulary: Lexicon, settings: Settings, programs: Programs, *, explain: bool = False
    ):
        """
        Args:
          programs: `attconv_jax.data.text.TEXTS`, [B, T] each, give `Judgement.answer`'s.
          explain: also say which words attended to which.
        """
        self._lexicon, self._settings, self._explain = vocabulary, settings, explain
        self._labels = settings.labels.split(",")
        self._judge = programs()

    @classmethod
    def read_vocabulary(cls, folder: Path) -> Lexicon:
        return Lexicon.load(folder)

    def predict(self, lines: Iterable[str], source: str = "lines") -> Iterator[str]:
        """A JSON object for each line: its label and the probability of each label; with `explain`
        also the `words` of its texts and, by layer, who attended to whom: the numbers of the
        `text` and of the `context` it looked at, and the `weights`, a row for each word."""
        numbered = enumerate(lines, start=1)
        while chunk := list(itertools.islice(numbered, self.CHUNK)):
            texts = [self._texts(line, f"{source}:{number}") for number, line in chunk]
            yield from self._answers(texts)

    def _texts(self, line: str, place: str) -> list[tuple[str, ...]]:
        """The words of a line's texts."""
        wanted = self._settings.texts
        texts = line.split("\t") if wanted == 2 else [line]
        if len(texts) != wanted:
            raise UserError(f"{place}: a pair is 2 texts parted by a tab, not {len(texts)}")
        words = [tokenize(text) for text in texts]
        if not all(words):
            raise UserError(f"{place}: a text without a word")
        return words

    def _answers(self, texts: Sequence[Sequence[tuple[str, ...]]]) -> list[str]:
        """Texts of like lengths are judged together."""
        answers = [""] * len(texts)
        lengths = [tuple(map(len, words)) for words in texts]
        for group in groups(lengths, self._settings.evaluation_positions):
            found = self._judged([texts[at] for at in group.members], group)
            for at, answer in zip(group.members, found, strict=True):
                answers[at] = json.dumps(answer, ensure_ascii=False)
        return answers

    def _judged(
        self, texts: Sequence[Sequence[tuple[str, ...]]], group: Group
    ) -> Iterator[dict[str, Any]]:
        """Answers, one after the other."""
        columns = zip(TEXTS, zip(*texts, strict=True), group.widths, strict=False)
        arrays = {
            name: padded([self._lexicon.words(words) for words in column], group.rows, width)
            for name, column, width in columns
        }
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
    words = weights[row, : len(texts[text]), : len(texts[context])]
    return {"text": text, "context": context, "weights": _rounded(words, 4)}


def _rounded(numbers: np.ndarray, digits: int) -> list[Any]:
    """As JSON has them short: not the nearest numbers of 32 bits."""
    return np.round(np.asarray(numbers, np.float64), digits).tolist()
