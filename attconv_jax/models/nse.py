"""Neural semantic encoder (Munkhdalai & Yu 2017), one memory a text.

The memory M begins as the words of the text. For each word x_t:

    o = LSTM(x_t),  z = softmax(M o),  m = M^T z
    h = LSTM(W [o; m] + b),  M <- M (1 - z) + z h

Both texts have the same parameters. The last h of each, joined as [p; h; p - h; p * h], goes
through a ReLU layer to the softmax. The states are as wide as the words' vectors.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array

from attconv_jax.layers import ReluLayers, matrix
from attconv_jax.models.base import AttendingModule, AttentionMap, Explained, PairModel, Text
from common_jax.fields import require
from common_jax.layers import Dense, Dropout
from common_jax.masks import masked_softmax
from common_jax.recurrent import LSTM
from common_jax.scopes import part


@dataclasses.dataclass(frozen=True)
class NSE(PairModel):
    """Neural semantic encoders of two texts.

    Attributes:
      hidden: size of the ReLU layer.
      dropout: rate on words and on the input of the ReLU layer.
    """

    hidden: int = 1024
    dropout: float = 0.3

    def __post_init__(self):
        require(self.hidden >= 1, f"model.hidden={self.hidden}: at least 1")
        require(0 <= self.dropout < 1, "model.dropout: a rate in [0, 1)")

    def require_texts(self, texts: int) -> None:
        require(texts == 2, "NSE: needs two texts")

    def module(self, labels: int, dtype: Any) -> "NSEModule":
        return NSEModule(self, labels, dtype)


class NSEModule(AttendingModule):
    """The network."""

    config: NSE
    labels: int
    dtype: Any = jnp.float32

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the memory that each word read."""
        dim, dropout = texts[0].words.shape[-1], Dropout(self.config.dropout)
        read = LSTM(dim, dim, self.dtype, name="read")
        write = LSTM(2 * dim, dim, self.dtype, name="write")
        compose = matrix(self, "compose", 2 * dim, 2 * dim)
        bias = self.param("compose_bias", nn.initializers.zeros, (2 * dim,))
        recurrent = write.weights()
        last, maps = [], []
        with part("attention"):
            for number, text in enumerate(texts):
                words = dropout(text.words, train=train)
                opened, _ = read(words, text.valid)

                def one(carry: Any, inputs: tuple[Array, Array], text: Text = text) -> Any:
                    memory, state = carry
                    o, real = inputs
                    z = masked_softmax(jnp.einsum("bsd,bd->bs", memory, o), text.valid)
                    m = jnp.einsum("bs,bsd->bd", z, memory)
                    composed = jnp.concatenate([o, m], -1) @ compose + bias[None]
                    new = write.step(state, write.project(composed), recurrent)
                    share = z[..., None]
                    written = memory * (1 - share) + share * new.hidden[:, None]
                    keep = lambda a, b: jnp.where(real.reshape(-1, *[1] * (a.ndim - 1)), a, b)
                    selected = jax.tree.map(keep, (written, new), carry)
                    return selected, jnp.where(real[:, None], z, 0)

                steps = jnp.swapaxes(opened, 0, 1), jnp.swapaxes(text.valid, 0, 1)
                first = words.astype(jnp.float32), write.start(words)
                (_, state), weights = jax.lax.scan(one, first, steps)
                last.append(state.hidden)
                maps.append(AttentionMap(number, number, jnp.swapaxes(weights, 0, 1)))
        with part("head"):
            first, second = last
            joined = jnp.concatenate([first, second, first - second, first * second], -1)
            layers = ReluLayers(
                (self.config.hidden,), self.config.dropout, self.dtype, name="hidden"
            )
            joined = layers(joined, train=train).astype(jnp.float32)
            logits = Dense(self.labels, ("mlp", "labels"), jnp.float32, name="output")(joined)
        return logits, [maps]
