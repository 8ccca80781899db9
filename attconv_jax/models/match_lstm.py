"""Match-LSTM (Wang & Jiang 2016, Eq. 6-9): an LSTM over the hypothesis and its attention.

One LSTM reads both texts; H_s are its states of the premise and h_k those of the hypothesis. For
each word k of the hypothesis:

    G_k = tanh(W_s H_s + (W_t h_k + W_m m_(k-1)) 1),  alpha_k = softmax(w . G_k + b)
    a_k = H_s alpha_k,  m_k = LSTM([a_k; h_k])

The label is predicted from the last m. As in the authors' code, an empty word with the state 0 is
appended to the premise, for words without a counterpart, and W_s, W_t and W_m have biases.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array

from attconv_jax.layers import matrix
from attconv_jax.models.base import AttendingModule, AttentionMap, Explained, PairModel, Text
from common_jax.fields import require_rates, require_sizes
from common_jax.layers import Dense, Dropout
from common_jax.masks import masked_softmax
from common_jax.recurrent import LSTM
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class MatchLSTM(PairModel):
    """Matches the hypothesis with the premise.

    Attributes:
      dim: width of all layers.
      dropout: rate on words and on the last state.
    """

    needs_pairs = True
    dim: int = 300
    dropout: float = 0.3

    def __post_init__(self):
        require_sizes("model", self, "dim")
        require_rates("model", self, "dropout")

    def module(self, labels: int, dtype: Any) -> "MatchLSTMModule":
        return MatchLSTMModule(self, labels, dtype)


class MatchLSTMModule(AttendingModule):
    """The network."""

    config: MatchLSTM

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the attention of the hypothesis to the premise without the empty word."""
        dim, dropout = self.config.dim, Dropout(self.config.dropout)
        lstm = LSTM(texts[0].words.shape[-1], dim, self.dtype, name="lstm")
        with scope("recurrent"):
            premise, hypothesis = (
                lstm(dropout(text.words, train=train), text.valid)[0] for text in texts
            )
        one_more = ((0, 0), (0, 1))
        premise = jnp.pad(premise, (*one_more, (0, 0)))
        allowed = jnp.pad(texts[0].valid, one_more, constant_values=True)
        named = lambda name: Dense(dim, ("embed", "mlp"), self.dtype, name=name)
        of_premise = named("premise")(premise).astype(jnp.float32)
        of_hypothesis = named("hypothesis")(hypothesis).astype(jnp.float32)
        of_match = matrix(self, "match", dim, dim)
        match_bias = self.param("match_bias", nn.initializers.zeros, (dim,))
        weight = self.param("weight", nn.initializers.normal(dim**-0.5), (dim,))
        bias = self.param("weight_bias", nn.initializers.zeros, ())
        match = LSTM(2 * dim, dim, self.dtype, name="match_lstm")
        first, recurrent = match.start(premise), match.weights()
        with scope("attention"):

            def step(state: Any, inputs: tuple[Array, Array, Array]) -> tuple[Any, Array]:
                of_word, h, real = inputs
                of_both = of_word + state.hidden @ of_match + match_bias[None]
                g = jnp.tanh(of_premise + of_both[:, None])
                alpha = masked_softmax(g @ weight + bias, allowed)
                attended = jnp.einsum("bs,bsd->bd", alpha, premise)
                projected = match.project(jnp.concatenate([attended, h], -1))
                new = match.step(state, projected, recurrent)
                keep = lambda a, b: jnp.where(real[:, None], a, b)
                return jax.tree.map(keep, new, state), jnp.where(real[:, None], alpha, 0)

            steps = (of_hypothesis, hypothesis, texts[1].valid)
            last, weights = jax.lax.scan(step, first, tuple(jnp.swapaxes(x, 0, 1) for x in steps))
        with scope("head"):
            logits = self._output(dropout(last.hidden, train=train))
        return logits, [[AttentionMap(1, 0, jnp.swapaxes(weights, 0, 1)[..., :-1])]]
