"""Word-by-word attention (Rocktäschel et al. 2016, Eq. 11-14).

One LSTM reads the premise; another reads the hypothesis, with the premise's last cell as its
initial cell. With Y the states of the premise and h_t those of the hypothesis:

    M_t = tanh(W_y Y + (W_h h_t + W_r r_(t-1)) 1),  alpha_t = softmax(w . M_t)
    r_t = Y alpha_t + tanh(W_t r_(t-1)),  h* = tanh(W_p r_N + W_x h_N)

The label is predicted from h* by a softmax.
"""

import dataclasses
from collections.abc import Sequence

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
from common_jax.recurrent import LSTM, State, kept
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class WordByWord(PairModel):
    """Attention of each word of the hypothesis to the premise.

    Attributes:
      dim: k, width of all layers.
      dropout: rate on the mapped words and on h*.
    """

    needs_pairs = True
    dim: int = size(100)
    dropout: float = rate(0.1)


@network_of(WordByWord)
class WordByWordModule(AttendingModule):
    """The network."""

    config: WordByWord

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the attention of the hypothesis to the premise."""
        dim = self.config.dim
        dropout = Dropout(self.config.dropout)

        # Y and h
        project = Dense(dim, ("embed", "mlp"), self.dtype, name="project")
        words = [dropout(project(text.words), train=train) for text in texts]
        with scope("recurrent"):
            premise, last = LSTM(dim, dim, self.dtype, name="premise")(words[0], texts[0].valid)
            begin = State(jnp.zeros_like(last.hidden), last.cell)
            read = LSTM(dim, dim, self.dtype, name="hypothesis")
            hypothesis, end = read(words[1], texts[1].valid, begin)

        # W_y Y and W_h h
        matrices = {name: matrix(self, name, dim, dim) for name in ("y", "h", "r", "t", "p", "x")}
        weight = self.param("w", nn.initializers.normal(dim**-0.5), (dim,))
        with scope("attention"):
            of_premise = premise @ matrices["y"]
            of_hypothesis = hypothesis @ matrices["h"]

            # M_t, alpha_t and r_t of a word
            def step(r: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
                of_word, is_word = inputs
                m = jnp.tanh(of_premise + (of_word + r @ matrices["r"])[:, None])
                alpha = masked_softmax(m @ weight, texts[0].valid)
                new = jnp.einsum("bs,bsd->bd", alpha, premise) + jnp.tanh(r @ matrices["t"])
                return kept(is_word, new, r), kept(is_word, alpha, 0)

            steps = (jnp.swapaxes(of_hypothesis, 0, 1), jnp.swapaxes(texts[1].valid, 0, 1))
            r, weights = jax.lax.scan(step, jnp.zeros_like(last.hidden), steps)

        # h*
        with scope("head"):
            joined = jnp.tanh(r @ matrices["p"] + end.hidden @ matrices["x"])
            logits = self._output(dropout(joined, train=train))
        return logits, [[AttentionMap(1, 0, jnp.swapaxes(weights, 0, 1))]]
