"""Sentence-Rank of Table 5: sentences ranked by gated self-matching (R-Net, Wang et al. 2017).

The paper gives no details beyond the network's name. Ours, with u the states of one bidirectional
GRU over both texts:

1. each word of the sentence attends to the question, with context c; a bidirectional GRU reads
   x = g * [u; c], g = sigmoid(W [u; c]), and has the states v;
2. each v attends to the sentence's v in the same way, with parameters of its own; the GRU's states
   are h;
3. the question is represented by a weighted mean of its states, the sentence by the maxima of h;
   the head is that of attentive convolution.

Energies are dot products of ReLU projections, divided by the root of their width, as in R-Net's
released successors.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.layers import Head, max_pooled
from attconv_jax.models.base import (
    POOLED,
    AttendingModule,
    AttentionMap,
    Explained,
    PairModel,
    Text,
    network_of,
)
from attconv_jax.models.convolution_pooling import Attention
from common_jax.fields import rate, size
from common_jax.layers import Dense, Dropout
from common_jax.masks import masked_softmax
from common_jax.recurrent import GRU, Bidirectional
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class SentenceRank(PairModel):
    """Matches a sentence with a question, then with itself.

    Attributes:
      dim: size of the GRUs, in each direction, of the projections and of the head.
      dropout: rate on the inputs of the GRUs and of the head's layers.
    """

    needs_pairs = True
    dim: int = size(75)
    dropout: float = rate(0.2)


@network_of(SentenceRank)
class SentenceRankModule(AttendingModule):
    """The network; the first text is the question."""

    config: SentenceRank

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the weights of the attention to the question, to the sentence itself, and of
        the question's mean."""
        dim = self.config.dim
        dropout = Dropout(self.config.dropout)
        question, sentence = texts

        def read(name: str, states: Array, valid: Array) -> Array:
            gru = Bidirectional(GRU, states.shape[-1], dim, self.dtype, name=name)
            return gru(dropout(states, train=train), valid)[0]

        # u of both texts
        encode = Bidirectional(GRU, question.words.shape[-1], dim, self.dtype, name="encode")
        of_question, of_sentence = (
            encode(dropout(text.words, train=train), text.valid)[0] for text in texts
        )

        with scope("attention"):
            # step 1: v
            match = Match(dim, self.dtype, name="match")
            x, to_question = match(of_sentence, of_question, sentence.valid, question.valid)
            v = read("matched", x, sentence.valid)

            # step 2: h
            match = Match(dim, self.dtype, name="self_match")
            x, to_itself = match(v, v, sentence.valid, sentence.valid)
            h = read("self_matched", x, sentence.valid)

            # step 3: the question's mean
            mean, weights = Attention(self.dtype, name="question")(of_question, question.valid)

        head = Head(dim, self.labels, dropout, self.dtype, name="head")
        logits = head([mean, max_pooled(h, sentence.valid)], train=train)
        maps = [(1, 0, to_question), (1, 1, to_itself), (POOLED, 0, weights[:, None])]
        return logits, [[AttentionMap(*fields)] for fields in maps]


class Match(nn.Module):
    """g * [u; c] of each word, with c its attention context in a text, and the weights."""

    dim: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        states: Float[Array, "B T D"],
        context: Float[Array, "B S D"],
        valid: Bool[Array, "B T"],
        context_valid: Bool[Array, "B S"],
    ) -> tuple[Float[Array, "B T E"], Float[Array, "B T S"]]:
        def dense(size: int, name: str) -> Dense:
            return Dense(size, ("embed", "mlp"), self.dtype, use_bias=False, name=name)

        # c
        query = nn.relu(dense(self.dim, "query")(states))
        key = nn.relu(dense(self.dim, "key")(context))
        energies = jnp.einsum("btd,bsd->bts", query, key).astype(jnp.float32) * self.dim**-0.5
        weights = masked_softmax(energies, valid[:, :, None] & context_valid[:, None])
        contexts = jnp.einsum("bts,bsd->btd", weights, context)

        # g
        joined = jnp.concatenate([states, contexts], -1)
        gate = nn.sigmoid(dense(joined.shape[-1], "gate")(joined))
        return gate.astype(jnp.float32) * joined, weights
