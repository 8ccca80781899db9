"""Convolutions of several widths and pooling: three systems of Table 6.

- MultichannelCNN (Kim 2014): the same filters over a fixed and a trained copy of the vectors,
  summed before the ReLU; max-pooling; a softmax.
- CNN with internal attention (Adel & Schütze 2017): weighted means instead of max-pooling, with
  weights softmax(v . tanh(W h_i)).
- Lin et al.'s (2017) CNN: one copy of the vectors, max-pooling, and a hidden ReLU layer.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attconv_jax.layers import ReluLayers, max_pooled
from attconv_jax.models.base import (
    POOLED,
    AttendingModule,
    AttentionMap,
    Explained,
    PairModel,
    Text,
    network_of,
)
from common_jax.convolution import Convolution
from common_jax.fields import rate, require, size
from common_jax.layers import Dense, Dropout
from common_jax.masks import masked_softmax
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class ConvolutionPooling(PairModel):
    """Convolutions over each text, pooled and concatenated.

    Attributes:
      dim: filters of each width.
      widths: of the filters, in words, separated by commas.
      channels: 1, or 2 with a fixed copy of the vectors beside the trained one.
      pooling: max-pooling, or attention over the words.
      hidden: size of the hidden layer before the softmax; 0 for none.
      dropout: rate on the pooled texts and the hidden layer.
    """

    dim: int = size(100)
    widths: str = "3,4,5"
    channels: Literal[1, 2] = 1
    pooling: Literal["max", "attention"] = "max"
    hidden: int = size(0, least=0)
    dropout: float = rate(0.5)

    def __post_init__(self):
        super().__post_init__()
        widths = [width.strip() for width in self.widths.split(",")]
        positive = all(width.isdecimal() and int(width) for width in widths)
        require(
            positive and len({*widths}) == len(widths),
            f"model.widths={self.widths!r}: different numbers of words, separated by commas",
        )

    @property
    def second_table(self) -> bool:
        return self.channels == 2


@network_of(ConvolutionPooling)
class ConvolutionPoolingModule(AttendingModule):
    """The network."""

    config: ConvolutionPooling

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the weights of pooling by attention."""
        config = self.config
        dropout = Dropout(config.dropout)
        filters = [
            Convolution(config.dim, int(width), self.dtype, name=f"convolution_{width.strip()}")
            for width in config.widths.split(",")
        ]
        attend = Attention(self.dtype, name="attention") if config.pooling == "attention" else None

        pooled = []
        maps = []
        with scope("attention"):
            for number, text in enumerate(texts):
                # the convolutions, over both copies of the vectors
                words = text.words
                if text.second is not None:
                    words = jax.lax.stop_gradient(words) + text.second
                states = [nn.relu(convolution(words)) for convolution in filters]

                # pooling
                if attend is None:
                    best = [max_pooled(x, text.valid) for x in states]
                    pooled.append(jnp.concatenate(best, -1))
                    continue
                mean, weights = attend(jnp.concatenate(states, -1), text.valid)
                pooled.append(mean)
                maps.append(AttentionMap(POOLED, number, weights[:, None]))

        with scope("head"):
            joined = jnp.concatenate(pooled, -1)
            if config.hidden:
                layers = ReluLayers((config.hidden,), config.dropout, self.dtype, name="hidden")
                joined = layers(joined, train=train)
            logits = self._output(dropout(joined, train=train))
        return logits, [maps] if maps else []


class Attention(nn.Module):
    """sum_i alpha_i h_i with alpha = softmax(v . tanh(W h_i)), and alpha."""

    dtype: Any

    @nn.compact
    def __call__(
        self, states: Float[Array, "B T D"], valid: Array
    ) -> tuple[Float[Array, "B D"], Float[Array, "B T"]]:
        dim = states.shape[-1]
        project = Dense(dim, ("embed", "mlp"), self.dtype, use_bias=False, name="in")
        hidden = jnp.tanh(project(states))
        weight = self.param("weight", nn.initializers.normal(dim**-0.5), (dim,))
        alpha = masked_softmax(hidden.astype(jnp.float32) @ weight, valid)
        return jnp.einsum("bt,btd->bd", alpha.astype(states.dtype), states), alpha
