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
from attconv_jax.models.base import (
    AttendingModule,
    AttentionMap,
    Explained,
    PairModel,
    Text,
    network_of,
)
from common_jax.fields import rate, size
from common_jax.layers import Dense, Dropout
from common_jax.masks import masked_softmax
from common_jax.recurrent import LSTM, kept
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class MatchLSTM(PairModel):
    """Matches the hypothesis with the premise.

    Attributes:
      dim: width of all layers.
      dropout: rate on words and on the last state.
    """

    needs_pairs = True
    dim: int = size(300)
    dropout: float = rate(0.3)


@network_of(MatchLSTM)
class MatchLSTMModule(AttendingModule):
    """The network."""

    config: MatchLSTM

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the attention of the hypothesis to the premise without the empty word."""
        dim = self.config.dim
        dropout = Dropout(self.config.dropout)

        # H_s, with the empty word, and h
        lstm = LSTM(texts[0].words.shape[-1], dim, self.dtype, name="lstm")
        with scope("recurrent"):
            premise, hypothesis = (
                lstm(dropout(text.words, train=train), text.valid)[0] for text in texts
            )
        one_more = ((0, 0), (0, 1))
        premise = jnp.pad(premise, (*one_more, (0, 0)))
        allowed = jnp.pad(texts[0].valid, one_more, constant_values=True)

        # W_s H_s, W_t h, and the parameters of the loop
        w_s = Dense(dim, ("embed", "mlp"), self.dtype, name="premise")
        w_t = Dense(dim, ("embed", "mlp"), self.dtype, name="hypothesis")
        of_premise = w_s(premise).astype(jnp.float32)
        of_hypothesis = w_t(hypothesis).astype(jnp.float32)
        w_m = matrix(self, "match", dim, dim)
        match_bias = self.param("match_bias", nn.initializers.zeros, (dim,))
        w = self.param("weight", nn.initializers.normal(dim**-0.5), (dim,))
        b = self.param("weight_bias", nn.initializers.zeros, ())
        match = LSTM(2 * dim, dim, self.dtype, name="match_lstm")
        first = match.start(premise)
        recurrent = match.weights()

        def step(state: Any, inputs: tuple[Array, Array, Array]) -> tuple[Any, Array]:
            of_word, h, is_word = inputs

            # G_k and alpha_k
            of_both = of_word + state.hidden @ w_m + match_bias[None]
            g = jnp.tanh(of_premise + of_both[:, None])
            alpha = masked_softmax(g @ w + b, allowed)

            # a_k and m_k
            a = jnp.einsum("bs,bsd->bd", alpha, premise)
            projected = match.project(jnp.concatenate([a, h], -1))
            new = match.step(state, projected, recurrent)
            return kept(is_word, new, state), kept(is_word, alpha, 0)

        # all words of the hypothesis, in order
        with scope("attention"):
            steps = (of_hypothesis, hypothesis, texts[1].valid)
            last, weights = jax.lax.scan(step, first, tuple(jnp.swapaxes(x, 0, 1) for x in steps))

        with scope("head"):
            logits = self._output(dropout(last.hidden, train=train))
        return logits, [[AttentionMap(1, 0, jnp.swapaxes(weights, 0, 1)[..., :-1])]]
