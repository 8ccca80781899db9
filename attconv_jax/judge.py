"""A trained model that labels anybody's texts."""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from attconv_jax.layers import Attended
from attconv_jax.model import AttentiveConvNet
from attconv_jax.prepare import tokenize
from common_jax.data.requests import Group, groups, padded
from common_jax.errors import UserError
from common_jax.training.task import Params, Predictor

if TYPE_CHECKING:
    from attconv_jax.task import Judgement


class Judge(Predictor):
    """Labels lines: a text each, or a pair parted by a tab."""

    CHUNK = 512  # lines read before the first is answered

    def __init__(self, task: "Judgement", params: Params, *, explain: bool = False):
        """
        Args:
          explain: also say which words attended to which.
        """
        self._task, self._params, self._explain = task, params, explain
        apply = lambda params, texts: task.model.apply(
            {"params": params}, texts, method=AttentiveConvNet.explain
        )
        self._judge = jax.jit(apply)

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
        wanted = self._task.config.data.texts
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
        for group in groups(lengths, self._task.config.data.evaluation_positions):
            found = self._judged([texts[at] for at in group.members], group)
            for at, answer in zip(group.members, found, strict=True):
                answers[at] = json.dumps(answer, ensure_ascii=False)
        return answers

    def _judged(
        self, texts: Sequence[Sequence[tuple[str, ...]]], group: Group
    ) -> Iterator[dict[str, Any]]:
        """Answers, one after the other."""
        lexicon, names = self._task.data.lexicon, self._task.config.data.names
        arrays = [
            padded([lexicon.words(words) for words in column], group.rows, width)
            for column, width in zip(zip(*texts, strict=True), group.widths, strict=True)
        ]
        logits, layers = jax.device_get(self._judge(self._params, arrays))
        likely = np.asarray(jax.nn.softmax(logits))
        for row, pair in enumerate(texts):
            chances = dict(zip(names, _rounded(likely[row], 6), strict=True))
            answer: dict[str, Any] = {"label": max(chances, key=chances.__getitem__)}
            answer["probabilities"] = chances
            if self._explain:
                answer["words"] = [list(words) for words in pair]
                answer["layers"] = [[_looked(a, row, pair) for a in layer] for layer in layers]
            yield answer


def _looked(attended: Attended, row: int, texts: Sequence[Sequence[str]]) -> dict[str, Any]:
    """What the words of one text of an example saw of another's."""
    text, context = int(attended.text), int(attended.context)
    weights = attended.weights[row, : len(texts[text]), : len(texts[context])]
    return {"text": text, "context": context, "weights": _rounded(weights, 4)}


def _rounded(numbers: np.ndarray, digits: int) -> list[Any]:
    """As JSON has them short: not the nearest numbers of 32 bits."""
    return np.round(np.asarray(numbers, np.float64), digits).tolist()
