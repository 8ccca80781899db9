"""Self-attentive sentence embedding, and the BiLSTM compared with it (Lin et al. 2017).

H are the states of a bidirectional LSTM. Each text has r weighted means M, with a penalty on
similar rows of weights:

    A = softmax(W_2 tanh(W_1 H^T)),  M = A H,  penalty = c |A A^T - I|^2 (Frobenius)

A hidden ReLU layer and a softmax follow M of a single text. M of two texts are mapped row by row
and multiplied (appendix A), followed by two hidden layers. `pooling="max"` is the paper's BiLSTM,
with maxima over the words instead of M.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.layers import ReluLayers, max_pooled
from attconv_jax.models.base import (
    POOLED,
    AttentionMap,
    Explained,
    Losses,
    PairModel,
    PairModule,
    Text,
    network_of,
)
from common_jax.fields import not_negative, rate, size
from common_jax.layers import Dense
from common_jax.masks import masked_softmax
from common_jax.recurrent import LSTM, Bidirectional
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class RecurrentPooling(PairModel):
    """A BiLSTM over each text, pooled by attention or by maxima.

    Attributes:
      dim: size of the LSTM, in each direction.
      pooling: weighted means, or maxima.
      rows: r, number of weighted means.
      attention_dim: d_a, the hidden size of the weights.
      hidden: size of the hidden layers.
      penalty: c, weight of the penalty.
      dropout: rate on the inputs of the hidden layers.
    """

    dim: int = size(300)
    pooling: Literal["attention", "max"] = "attention"
    rows: int = size(10)
    attention_dim: int = size(150)
    hidden: int = size(512)
    penalty: float = not_negative(0.3)
    dropout: float = rate(0.5)


@network_of(RecurrentPooling)
class RecurrentPoolingModule(PairModule):
    """The network."""

    config: RecurrentPooling

    def __call__(
        self, texts: Sequence[Text], *, train: bool
    ) -> tuple[Float[Array, "B labels"], Losses]:
        """Logits, and the sum of the texts' penalties."""
        logits, _, penalty = self._forward(texts, train)
        return logits, ({"penalty": penalty} if self.config.pooling == "attention" else {})

    def explain(self, texts: Sequence[Text]) -> Explained:
        """Logits, and the weights of the means."""
        return self._forward(texts, train=False)[:2]

    @nn.compact
    def _forward(
        self, texts: Sequence[Text], train: bool
    ) -> tuple[Array, list[list[AttentionMap]], Array]:
        config = self.config
        width = texts[0].words.shape[-1]
        valid = [text.valid for text in texts]

        # H of each text
        lstm = Bidirectional(LSTM, width, config.dim, self.dtype, name="lstm")
        with scope("recurrent"):
            states = [lstm(text.words, text.valid)[0] for text in texts]

        # maxima, or M and A with the penalty
        penalty = jnp.zeros(texts[0].ids.shape[0])
        layers = []
        if config.pooling == "max":
            joined = jnp.concatenate(list(map(max_pooled, states, valid)), -1)
        else:
            attend = Means(config.rows, config.attention_dim, self.dtype, name="attention")
            with scope("attention"):
                means, weights = zip(*map(attend, states, valid), strict=True)
            for text_weights in weights:
                penalty = penalty + config.penalty * redundancy(text_weights)
            layers.append([AttentionMap(POOLED, number, a) for number, a in enumerate(weights)])
            joined = self._joined(means)

        # hidden layers and the softmax
        with scope("head"):
            sizes = (config.hidden,) * len(texts)
            hidden = ReluLayers(sizes, config.dropout, self.dtype, name="hidden")
            return self._output(hidden(joined, train=train)), layers, penalty

    def _joined(self, means: Sequence[Float[Array, "B r D"]]) -> Float[Array, "B _"]:
        """M of a text; of two texts the product of their mapped rows."""
        if len(means) == 1:
            (joined,) = means
        else:
            first = Rows(self.config.dim, self.dtype, name="first")(means[0])
            second = Rows(self.config.dim, self.dtype, name="second")(means[1])
            joined = first * second
        return joined.reshape(joined.shape[0], -1)


class Means(nn.Module):
    """M and A of a text."""

    rows: int
    dim: int
    dtype: Any

    @nn.compact
    def __call__(
        self, states: Float[Array, "B T D"], valid: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B r D"], Float[Array, "B r T"]]:
        w_1 = Dense(self.dim, ("embed", "mlp"), self.dtype, use_bias=False, name="in")
        w_2 = Dense(self.rows, ("embed", "mlp"), self.dtype, use_bias=False, name="out")
        scores = w_2(jnp.tanh(w_1(states)))
        scores = jnp.swapaxes(scores.astype(jnp.float32), 1, 2)
        weights = masked_softmax(scores, valid[:, None])
        return jnp.einsum("brt,btd->brd", weights, states), weights


class Rows(nn.Module):
    """Maps each row of M by a matrix of its own."""

    size: int
    dtype: Any

    @nn.compact
    def __call__(self, means: Float[Array, "B r D"]) -> Float[Array, "B r E"]:
        init = nn.initializers.variance_scaling(1.0, "fan_avg", "uniform", -2, -1, batch_axis=0)
        shape = (means.shape[1], means.shape[2], self.size)
        named = nn.with_logical_partitioning(init, (None, "embed", "mlp"))
        kernel = jnp.asarray(self.param("kernel", named, shape)).astype(self.dtype)
        return jnp.einsum("brd,rde->bre", means.astype(self.dtype), kernel)


def redundancy(weights: Float[Array, "B r T"]) -> Float[Array, "B"]:
    """|A A^T - I|^2."""
    products = jnp.einsum("brt,bqt->brq", weights, weights)
    return jnp.sum(jnp.square(products - jnp.eye(weights.shape[1])[None]), (1, 2))
