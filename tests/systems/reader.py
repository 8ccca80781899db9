"""A toy reader: compares each context word with the mean of the question's words.

Inputs are three characters of each word, whether it has a capital, its length, and the numbers of
words in both texts and in either; a further loss penalizes large logits.
"""

import dataclasses
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np

from common_jax.inputs import WordInput
from common_jax.masks import MASKED
from qanet_jax.models.base import ReaderModel, WordsConfig
from tests.systems.overlap import Shared


@dataclasses.dataclass(frozen=True)
class Spelling(WordInput):
    """1, or 2 for a word with a capital; and its length, at most `longest`."""

    key: ClassVar[str] = "spelling"
    longest: int = 7

    @property
    def width(self):
        return 2

    def encode(self, words, annotations):
        rows = [[1 + word[0].isupper(), min(len(word), self.longest)] for word in words]
        return np.array(rows, np.int32).reshape(-1, 2)


@dataclasses.dataclass(frozen=True)
class Matching(ReaderModel):
    size: int = 4
    penalty: float = 0.1
    longest: int = 7

    def module(self, words: WordsConfig, dtype: Any) -> nn.Module:
        return Match(self, words)

    @property
    def inputs(self):
        return Spelling(self.longest), Shared()

    @property
    def word_length(self):
        return 3


class Match(nn.Module):
    config: Matching
    words: WordsConfig

    @nn.compact
    def __call__(self, context, question, *, train, shared):
        size = self.config.size
        embeddings = [
            nn.Embed(self.words.rows, size, name="ids"),
            nn.Embed(self.words.char_rows, size, name="letters"),
            nn.Embed(1 + self.config.longest, size, name="spelling"),
        ]

        def embedded(text):
            numbers = text.ids[..., None], text.characters, text.inputs["spelling"]
            return sum(e(n).sum(axis=2) for e, n in zip(embeddings, numbers, strict=True))

        valid = question.valid[..., None]
        words = jnp.maximum(valid.sum(1), 1).astype(jnp.float32)
        mean = jnp.where(valid, embedded(question), 0).sum(1) / words
        count = nn.Dense(size, name="count")(shared.astype(jnp.float32))
        x = nn.tanh(embedded(context) * (mean + count)[:, None])
        logits = nn.Dense(2, name="pointers")(x)
        start, end = (jnp.where(context.valid, logits[..., n], MASKED) for n in range(2))
        squares = jnp.where(context.valid[..., None], logits**2, 0).sum((1, 2))
        return start, end, {"squares": self.config.penalty * squares}
