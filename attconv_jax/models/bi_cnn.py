"""Bi-CNN, the paper's baseline without attention (Yin & Schütze 2017, Tables 3 and 5).

Each text is encoded by convolutions h_i = tanh(W1 [x_{i-1}, x_i, x_{i+1}] + b) with shared
parameters and max-pooling; the head is that of attentive convolution.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.layers import Head, max_pooled
from attconv_jax.models.base import Explained, PairModel, PairModule, Text, network_of
from common_jax.convolution import Convolution
from common_jax.fields import odd, positive, rate, size
from common_jax.layers import Dropout
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class BiCNN(PairModel):
    """Convolutions and max-pooling of each text.

    Attributes:
      dim: the hidden size, of convolutions and of the head.
      layers: number of stacked convolutions.
      filter_width: of a convolution, in words.
      tanh_gain: factor on the tanh's argument; 1 in the paper.
      dropout: rate on the inputs of each layer: words, pooled texts and hidden layers.
    """

    dim: int = size(300)
    layers: int = size(1)
    filter_width: int = odd(3)
    tanh_gain: float = positive(1.0)
    dropout: float = rate(0.1)


class TanhConvolution(nn.Module):
    """tanh of a convolution, zeros at padding."""

    config: BiCNN
    dtype: Any

    def setup(self):
        self.convolution = Convolution(self.config.dim, self.config.filter_width, self.dtype)

    def __call__(
        self, states: Float[Array, "B T D"], valid: Bool[Array, "B T"]
    ) -> Float[Array, "B T H"]:
        above = jnp.tanh(self.config.tanh_gain * self.convolution(states))
        return jnp.where(valid[..., None], above, 0)


@network_of(BiCNN)
class BiCNNModule(PairModule):
    """The network; its parameters are named as those of attentive convolution."""

    config: BiCNN

    def setup(self):
        config = self.config
        self.layers = [TanhConvolution(config, self.dtype) for _ in range(config.layers)]
        self.dropout = Dropout(config.dropout)
        self.head = Head(config.dim, self.labels, self.dropout, self.dtype)

    def explain(self, texts: Sequence[Text]) -> Explained:
        """Logits, and empty attention maps for each layer."""
        return self(texts, train=False), [[] for _ in self.layers]

    def __call__(self, texts: Sequence[Text], *, train: bool) -> Float[Array, "B labels"]:
        with scope("attention"):
            states = self._states(texts, train)
        valid = [text.valid for text in texts]
        return self.head(list(map(max_pooled, states, valid)), train=train)

    def _states(self, texts: Sequence[Text], train: bool) -> list[Float[Array, "B T H"]]:
        """The states of each text above all layers."""
        states = [text.words for text in texts]
        for layer in self.layers:
            states = [self.dropout(x, train=train) for x in states]
            states = [layer(x, text.valid) for x, text in zip(states, texts, strict=True)]
        return states
