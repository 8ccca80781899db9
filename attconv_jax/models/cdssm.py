"""CDSSM (Shen et al. 2014): letter trigrams, a convolution over words, and the texts' cosine.

A word is represented by the counts of the letter trigrams of "#word#". A tanh layer maps windows of
three words to 300 features, and another one the maxima over the text to 128. The logit of the
second label is a trained factor times the cosine of both texts; that of the first is 0.

The product of counts and matrix is computed as a sum of rows: each trigram has a vector for each
position in the window. Ours: trigrams are hashed to rows, and a word has at most 16.
"""

import dataclasses
import zlib
from collections.abc import Sequence
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32

from attconv_jax.layers import max_pooled
from attconv_jax.models.base import PairModel, PairModule, Text, network_of
from common_jax.fields import rate, size
from common_jax.inputs import Annotations, Input, WordInput
from common_jax.layers import Dense, Dropout
from common_jax.scopes import scope
from common_jax.sharding import gathered


@dataclasses.dataclass(frozen=True)
class LetterTrigrams(WordInput):
    """The letter trigrams of each word, as rows of a table from 1.

    Attributes:
      rows: of the table, to which trigrams are hashed.
      most: trigrams of a word; further ones are dropped.
    """

    key: ClassVar[str] = "trigrams"
    rows: int = 30_000
    most: int = 16

    @property
    def width(self) -> int:
        return self.most

    def encode(
        self, words: Sequence[str], annotations: Annotations
    ) -> Int32[np.ndarray, "T {self.width}"]:
        numbers = np.zeros((len(words), self.most), np.int32)
        for row, word in zip(numbers, words, strict=True):
            marked = f"#{word}#"
            trigrams = [marked[at : at + 3] for at in range(len(marked) - 2)][: self.most]
            row[: len(trigrams)] = [1 + zlib.crc32(t.encode()) % self.rows for t in trigrams]
        return numbers


@dataclasses.dataclass(frozen=True)
class CDSSM(PairModel):
    """The cosine of two texts by their letter trigrams, without word vectors.

    Attributes:
      dim: features of a window of three words.
      semantic_dim: features of a text.
      trigram_rows: rows of the table, to which trigrams are hashed.
      dropout: rate on the pooled texts.
    """

    needs_pairs = True
    needs_two_labels = True
    dim: int = size(300)
    semantic_dim: int = size(128)
    trigram_rows: int = size(30_000)
    dropout: float = rate(0.0)

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (LetterTrigrams(self.trigram_rows),)


@network_of(CDSSM)
class CDSSMModule(PairModule):
    """The network."""

    config: CDSSM

    @nn.compact
    def __call__(self, texts: Sequence[Text], *, train: bool) -> Float[Array, "B labels"]:
        config = self.config
        dropout = Dropout(config.dropout)

        # a vector of each trigram for each position in the window
        normal = nn.initializers.normal(0.02)
        init = nn.with_logical_partitioning(normal, ("vocab", None, "embed"))
        table = self.param("trigram_embedding", init, (config.trigram_rows + 1, 3, config.dim))
        table = gathered(jnp.asarray(table), "vocab", "places", "embed")
        bias = self.param("bias", nn.initializers.zeros, (config.dim,))
        semantic = Dense(config.semantic_dim, ("embed", "mlp"), self.dtype, name="semantic")

        vectors = []
        for text in texts:
            # the convolution over words
            with scope("embedding"):
                trigrams = text.inputs[LetterTrigrams.key]
                rows = jnp.where((trigrams > 0)[..., None, None], table[trigrams], 0).sum(2)
                ends = jnp.pad(rows, ((0, 0), (1, 1), (0, 0), (0, 0)))
                length = rows.shape[1]
                terms = [ends[:, at : at + length, at] for at in range(3)]
                states = jnp.tanh(sum(terms[1:], terms[0]) + bias[None, None])

            # the features of the text
            with scope("head"):
                pooled = dropout(max_pooled(states, text.valid), train=train)
                vectors.append(jnp.tanh(semantic(pooled)).astype(jnp.float32))

        # the cosine, times the factor
        x, y = vectors
        lengths = jnp.sqrt(jnp.sum(x * x, -1) * jnp.sum(y * y, -1) + 1e-12)
        factor = jnp.asarray(self.param("factor", nn.initializers.constant(10.0), ()))
        score = factor * jnp.sum(x * y, -1) / lengths
        return jnp.stack([jnp.zeros_like(score), score], -1)
