"""Long short-term memory network (Cheng et al. 2016, Eq. 5-14): an LSTM with attention to its past.

Each word attends to the states h_i and cells c_i of the words before it; the weighted sums replace
the previous state and cell of the LSTM step:

    s_i = softmax_i<t(v . tanh(W_h h_i + W_x x_t + W_s h~_(t-1))),  [h~; c~] = sum_i s_i [h_i; c_i]

The second text also attends to the first ("deep fusion"), with weights of the same form over its
states and cells. With a_t the weighted sum of the states and r = sigmoid(W_r [x_t; a_t] + b), r
times the weighted sum of the cells is added to the new cell. Two ReLU layers and a softmax follow
the means of both texts' states.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.layers import ReluLayers, matrix
from attconv_jax.models.base import (
    AttendingModule,
    AttentionMap,
    Explained,
    PairModel,
    Text,
    network_of,
)
from common_jax.fields import rate, size
from common_jax.layers import Dropout
from common_jax.masks import masked_softmax
from common_jax.recurrent import LSTM, State, kept
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class LSTMN(PairModel):
    """The network of two texts, with deep fusion.

    Attributes:
      dim: size of states and of the hidden layers.
      dropout: rate on words and on the inputs of the hidden layers.
    """

    needs_pairs = True
    dim: int = size(300)
    dropout: float = rate(0.2)


@network_of(LSTMN)
class LSTMNModule(AttendingModule):
    """The network."""

    config: LSTMN

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the attention of each text to itself and of the second to the first."""
        config = self.config
        dropout = Dropout(config.dropout)
        valid = [text.valid for text in texts]
        words = [dropout(text.words, train=train) for text in texts]

        # the states of both texts; the second attends to the first
        with scope("recurrent"):
            read = Reader(config.dim, self.dtype, name="first")
            first, within_first, _ = read(words[0], valid[0])
            read = Reader(config.dim, self.dtype, name="second")
            second, within_second, fused = read(words[1], valid[1], (first, valid[0]))

        # two ReLU layers over their means
        with scope("head"):
            means = []
            for state, text_valid in zip((first, second), valid, strict=True):
                count = jnp.maximum(text_valid.sum(1, keepdims=True), 1)
                means.append(state.hidden.sum(1) / count.astype(jnp.float32))
            layers = ReluLayers((config.dim,) * 2, config.dropout, self.dtype, name="hidden")
            logits = self._output(layers(jnp.concatenate(means, -1), train=train))
        maps = [(0, 0, within_first), (1, 1, within_second), (1, 0, fused)]
        return logits, [[AttentionMap(*fields) for fields in maps]]


class Reader(nn.Module):
    """Reads one text; returns its states and cells, [B, T, H], zeros at padding, and the attention
    weights over the text itself and over `source`, the states and mask of the other text."""

    size: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        words: Float[Array, "B T D"],
        valid: Bool[Array, "B T"],
        source: tuple[State, Array] | None = None,
    ) -> tuple[State, Float[Array, "B T T"], Float[Array, "B T S"]]:
        rows, length, inputs = words.shape

        # the parameters, before the loop
        lstm = LSTM(inputs, self.size, self.dtype, name="lstm")
        within = self._scores("own", inputs)
        if source is not None:
            between = self._scores("other", inputs)
            gate = matrix(self, "gate", inputs + self.size, self.size)
            gate_bias = jnp.asarray(self.param("gate_bias", nn.initializers.zeros, (self.size,)))
        projected = lstm.project(words)
        recurrent = lstm.weights()

        def step(carry: Any, inputs: Any) -> Any:
            tape, summary, attended = carry
            position, word, word_projected, is_word = inputs

            # s over the words before, and [h~; c~]
            past = valid & (jnp.arange(length) < position)[None]
            weights = within(tape.hidden, word, summary, past)
            state = State(*(_weighted_sum(weights, stored) for stored in tape))

            # a_t and r of the other text
            shares = jnp.zeros((rows, 0))
            from_source: Any = 0.0
            if source is not None:
                memory, source_valid = source
                shares = between(memory.hidden, word, attended, source_valid)
                attended, cells = (_weighted_sum(shares, stored) for stored in memory)
                r = nn.sigmoid(jnp.concatenate([word, attended], -1) @ gate + gate_bias[None])
                from_source = r * cells

            # the LSTM step from h~ and c~, whose result follows on the tape
            new = lstm.step(state, word_projected, recurrent, from_source)
            new, weights, shares = kept(is_word, (new, weights, shares), 0)
            write = functools.partial(jax.lax.dynamic_update_index_in_dim, index=position, axis=1)
            return (jax.tree.map(write, tape, new), state.hidden, attended), (weights, shares)

        # all words, in order
        zeros = jnp.zeros((rows, self.size), jnp.float32)
        tape = State(*(jnp.zeros((rows, length, self.size), jnp.float32) for _ in State._fields))
        arrays = (words.astype(jnp.float32), projected, valid)
        steps = (jnp.arange(length), *(jnp.swapaxes(x, 0, 1) for x in arrays))
        (tape, *_), weights = jax.lax.scan(step, (tape, zeros, zeros), steps)
        return tape, *(jnp.swapaxes(x, 0, 1) for x in weights)

    def _scores(self, prefix: str, inputs: int) -> "Scores":
        """Scores whose parameters' names have this prefix."""
        rows = {"state": self.size, "word": inputs, "summary": self.size}
        w_h, w_x, w_s = (
            matrix(self, f"{prefix}_{name}", count, self.size) for name, count in rows.items()
        )
        normal = nn.initializers.normal(self.size**-0.5)
        v = jnp.asarray(self.param(f"{prefix}_weight", normal, (self.size,)))
        return Scores(w_h, w_x, w_s, v)


class Scores(NamedTuple):
    """Softmax of v . tanh(W_h h_i + W_x x + W_s s) over the allowed i."""

    w_h: Float[Array, "H H"]
    w_x: Float[Array, "D H"]
    w_s: Float[Array, "H H"]
    v: Float[Array, "H"]

    def __call__(self, states: Array, word: Array, summary: Array, allowed: Array) -> Array:
        of_word = (word @ self.w_x + summary @ self.w_s)[:, None]
        return masked_softmax(jnp.tanh(states @ self.w_h + of_word) @ self.v, allowed)


def _weighted_sum(weights: Float[Array, "B T"], states: Float[Array, "B T H"]) -> Array:
    return jnp.einsum("bs,bsd->bd", weights, states)
