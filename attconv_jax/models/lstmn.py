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
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.layers import ReluLayers, matrix
from attconv_jax.models.base import AttendingModule, AttentionMap, Explained, PairModel, Text
from common_jax.fields import require_rates, require_sizes
from common_jax.layers import Dropout
from common_jax.masks import masked_softmax
from common_jax.recurrent import LSTM, State
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class LSTMN(PairModel):
    """The network of two texts, with deep fusion.

    Attributes:
      dim: size of states and of the hidden layers.
      dropout: rate on words and on the inputs of the hidden layers.
    """

    needs_pairs = True
    dim: int = 300
    dropout: float = 0.2

    def __post_init__(self):
        require_sizes("model", self, "dim")
        require_rates("model", self, "dropout")

    def module(self, labels: int, dtype: Any) -> "LSTMNModule":
        return LSTMNModule(self, labels, dtype)


class LSTMNModule(AttendingModule):
    """The network."""

    config: LSTMN

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the attention of each text to itself and of the second to the first."""
        config, dropout = self.config, Dropout(self.config.dropout)
        words = [dropout(text.words, train=train) for text in texts]
        read = lambda name: Tape(config.dim, self.dtype, name=name)
        with scope("recurrent"):
            first, within_first, _ = read("first")(words[0], texts[0].valid)
            source = first, texts[0].valid
            second, within_second, fused = read("second")(words[1], texts[1].valid, source)
        with scope("head"):
            means = []
            for state, text in zip((first, second), texts, strict=True):
                count = jnp.maximum(text.valid.sum(1, keepdims=True), 1)
                means.append(state.hidden.sum(1) / count.astype(jnp.float32))
            layers = ReluLayers((config.dim,) * 2, config.dropout, self.dtype, name="hidden")
            logits = self._output(layers(jnp.concatenate(means, -1), train=train))
        maps = [(0, 0, within_first), (1, 1, within_second), (1, 0, fused)]
        return logits, [[AttentionMap(*fields) for fields in maps]]


class Tape(nn.Module):
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
        size, inputs = self.size, words.shape[-1]
        lstm = LSTM(inputs, size, self.dtype, name="lstm")
        scores = _Scores(self, "own", inputs, size)
        if source is not None:
            other = _Scores(self, "other", inputs, size)
            gate = matrix(self, "gate", inputs + size, size)
            gate_bias = jnp.asarray(self.param("gate_bias", nn.initializers.zeros, (size,)))
        rows, length = words.shape[:2]
        projected, recurrent = lstm.project(words), lstm.weights()
        zeros = jnp.zeros((rows, size), jnp.float32)
        tape = State(*(jnp.zeros((rows, length, size), jnp.float32) for _ in State._fields))

        def step(carry: Any, inputs: Any) -> Any:
            tape, summary, attended = carry
            at, x, of_x, real = inputs
            past = valid & (jnp.arange(length) < at)[None]
            weights = scores(tape.hidden, x, summary, past)
            state = State(*(jnp.einsum("bs,bsd->bd", weights, stored) for stored in tape))
            shares, from_source = jnp.zeros((rows, 0)), 0.0
            if source is not None:
                memory, real_source = source
                shares = other(memory.hidden, x, attended, real_source)
                attended, cells = (jnp.einsum("bs,bsd->bd", shares, stored) for stored in memory)
                r = nn.sigmoid(jnp.concatenate([x, attended], -1) @ gate + gate_bias[None])
                from_source = r * cells
            new = lstm.step(state, of_x, recurrent, from_source)
            new = State(*(jnp.where(real[:, None], field, 0) for field in new))
            write = lambda stored, field: jax.lax.dynamic_update_index_in_dim(stored, field, at, 1)
            tape = State(*(write(stored, field) for stored, field in zip(tape, new, strict=True)))
            masked = lambda a: jnp.where(real[:, None], a, 0)
            return (tape, state.hidden, attended), (masked(weights), masked(shares))

        steps = [jnp.swapaxes(x, 0, 1) for x in (words.astype(jnp.float32), projected, valid)]
        step_inputs = jnp.arange(length), *steps
        (tape, *_), weights = jax.lax.scan(step, (tape, zeros, zeros), step_inputs)
        return tape, *(jnp.swapaxes(x, 0, 1) for x in weights)


class _Scores:
    """Softmax of v . tanh(W_h h_i + W_x x + W_s s) over the allowed i."""

    def __init__(self, module: nn.Module, name: str, inputs: int, size: int):
        self.state, self.word, self.summary = (
            matrix(module, f"{name}_{of}", rows, size)
            for of, rows in (("state", size), ("word", inputs), ("summary", size))
        )
        normal = nn.initializers.normal(size**-0.5)
        self.weight = jnp.asarray(module.param(f"{name}_weight", normal, (size,)))

    def __call__(self, states: Array, word: Array, summary: Array, allowed: Array) -> Array:
        of_word = (word @ self.word + summary @ self.summary)[:, None]
        return masked_softmax(jnp.tanh(states @ self.state + of_word) @ self.weight, allowed)
