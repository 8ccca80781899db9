"""Neural semantic encoder (Munkhdalai & Yu 2017), with a memory for each text.

The memory M is initialized with the word vectors of the text. For each word x_t:

    o = LSTM(x_t),  z = softmax(M o),  m = M^T z
    h = LSTM(W [o; m] + b),  M <- M (1 - z) + z h

Both texts share the parameters. With p and h the last states of premise and hypothesis, a ReLU
layer and a softmax follow [p; h; p - h; p * h]. The states are as wide as the word vectors.
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
from common_jax.fields import require_rates, require_sizes
from common_jax.layers import Dropout
from common_jax.masks import masked_softmax
from common_jax.recurrent import LSTM
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class NSE(PairModel):
    """Neural semantic encoders of two texts.

    Attributes:
      hidden: size of the ReLU layer.
      dropout: rate on words and on the input of the ReLU layer.
    """

    needs_pairs = True
    hidden: int = 1024
    dropout: float = 0.3

    def __post_init__(self):
        require_sizes("model", self, "hidden")
        require_rates("model", self, "dropout")

    def module(self, labels: int, dtype: Any) -> "NSEModule":
        return NSEModule(self, labels, dtype)


class NSEModule(AttendingModule):
    """The network."""

    config: NSE

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the weights with which each word reads the memory."""
        dim, dropout = texts[0].words.shape[-1], Dropout(self.config.dropout)
        read = LSTM(dim, dim, self.dtype, name="read")
        write = LSTM(2 * dim, dim, self.dtype, name="write")
        compose = matrix(self, "compose", 2 * dim, 2 * dim)
        bias = self.param("compose_bias", nn.initializers.zeros, (2 * dim,))
        recurrent = write.weights()
        last, maps = [], []
        with scope("attention"):
            for number, text in enumerate(texts):
                words = dropout(text.words, train=train)
                opened, _ = read(words, text.valid)

                def step(carry: Any, inputs: tuple[Array, Array], text: Text = text) -> Any:
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
                (_, state), weights = jax.lax.scan(step, first, steps)
                last.append(state.hidden)
                maps.append(AttentionMap(number, number, jnp.swapaxes(weights, 0, 1)))
        with scope("head"):
            first, second = last
            joined = jnp.concatenate([first, second, first - second, first * second], -1)
            layers = ReluLayers(
                (self.config.hidden,), self.config.dropout, self.dtype, name="hidden"
            )
            logits = self._output(layers(joined, train=train))
        return logits, [maps]
