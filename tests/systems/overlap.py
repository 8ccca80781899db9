"""A toy matching model with letters and counts of shared words as further inputs, a further loss, a
second table of vectors, and explained attention."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np

from attconv_jax.models.base import POOLED, AttentionMap, PairModel, PairModule, Text
from common_jax.inputs import ExampleInput, WordInput
from common_jax.layers import Dense
from common_jax.masks import masked_softmax


@dataclasses.dataclass(frozen=True)
class Ends(WordInput):
    """The first and the last letter of each word, and the length of its annotation."""

    key: ClassVar[str] = "ends"
    letters: int = 9

    @property
    def width(self) -> int:
        return 3

    def encode(self, words, annotations):
        note = len(annotations.get("note", ""))
        number = lambda letter: 1 + ord(letter) % self.letters
        return np.array([[number(w[0]), number(w[-1]), note] for w in words], np.int32)


@dataclasses.dataclass(frozen=True)
class Shared(ExampleInput):
    """The number of distinct words in both texts, and in either."""

    key: ClassVar[str] = "shared"

    @property
    def width(self) -> int:
        return 2

    def encode(self, texts, annotations):
        sets = [set(words) for words in texts]
        return np.array([len(set.intersection(*sets)), len(set.union(*sets))], np.int32)


@dataclasses.dataclass(frozen=True)
class Overlap(PairModel):
    """Attentive pooling of words and letters, and the share of common words.

    Attributes:
      penalty: weight of the pooled vectors' mean square, a further loss.
    """

    letters: int = 9
    dim: int = 4
    penalty: float = 0.5

    @property
    def inputs(self):
        return (Ends(self.letters), Shared())

    @property
    def second_table(self) -> bool:
        return True

    def module(self, labels: int, dtype: Any) -> "OverlapModule":
        return OverlapModule(self, labels, dtype)


class OverlapModule(PairModule):
    config: Overlap
    labels: int
    dtype: Any

    def setup(self):
        self.embedding = nn.Embed(self.config.letters + 1, self.config.dim, dtype=self.dtype)
        self.energy = Dense(1, ("embed", "mlp"), self.dtype)
        self.out = Dense(self.labels, ("embed", "labels"), jnp.float32)

    def __call__(self, texts: Sequence[Text], *, train: bool):
        pooled = [self._pooled(text)[0] for text in texts]
        loss = self.config.penalty * sum(jnp.mean(p**2, axis=1) for p in pooled)
        return self._logits(pooled, texts), {"pooled_square": loss}

    def explain(self, texts: Sequence[Text]):
        both = [self._pooled(text) for text in texts]
        attention = [
            AttentionMap(POOLED, number, weights) for number, (_, weights) in enumerate(both)
        ]
        return self._logits([pooled for pooled, _ in both], texts), [attention]

    def _pooled(self, text: Text):
        letters = self.embedding(text.inputs["ends"][..., :2]).sum(axis=2)
        states = jnp.concatenate([text.words, text.second, letters], axis=-1)
        weights = masked_softmax(self.energy(states)[..., 0], text.valid)
        return jnp.einsum("bt,btd->bd", weights, states), weights[:, None]

    def _logits(self, pooled, texts: Sequence[Text]):
        shared, words = jnp.split(texts[0].example["shared"].astype(jnp.float32), 2, axis=1)
        return self.out(jnp.concatenate([*pooled, shared / jnp.maximum(words, 1.0)], axis=-1))
