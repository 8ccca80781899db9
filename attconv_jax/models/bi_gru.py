"""Bi-GRU of Table 5: the model of Tang et al. (2017, arXiv 1706.02027) for answer selection.

Each text has a bidirectional GRU of its own. The last states q and a, q * a, and a vector for the
number of distinct words that the texts share are the inputs of a hidden tanh layer and the output.
"""

import dataclasses
from collections.abc import Sequence

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from attconv_jax.models.base import PairModel, PairModule, Text, network_of
from attconv_jax.models.word_count import WordCounts
from common_jax.fields import rate, size
from common_jax.inputs import Input
from common_jax.layers import Dense, Dropout
from common_jax.recurrent import GRU, Bidirectional
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class BiGRU(PairModel):
    """A bidirectional GRU over each text.

    Attributes:
      dim: size of the GRU, in each direction, and of the hidden layer.
      shared_dim: size of the vector for the number of shared words.
      most_shared: largest number with a vector of its own.
      dropout: rate on words and on the input of the hidden layer.
    """

    needs_pairs = True
    dim: int = size(100)
    shared_dim: int = size(10)
    most_shared: int = size(30)
    dropout: float = rate(0.1)

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (WordCounts(),)


@network_of(BiGRU)
class BiGRUModule(PairModule):
    """The network."""

    config: BiGRU

    @nn.compact
    def __call__(self, texts: Sequence[Text], *, train: bool) -> Float[Array, "B labels"]:
        config = self.config
        dropout = Dropout(config.dropout)

        # the last states q and a
        last = []
        with scope("recurrent"):
            for name, text in zip(("first", "second"), texts, strict=True):
                words = dropout(text.words, train=train)
                gru = Bidirectional(GRU, words.shape[-1], config.dim, self.dtype, name=name)
                last.append(gru(words, text.valid)[1])

        with scope("head"):
            # the vector for the number of shared words
            normal = nn.initializers.normal(0.1)
            table = self.param("shared", normal, (config.most_shared + 1, config.shared_dim))
            count = jnp.minimum(texts[0].example[WordCounts.key][:, 0], config.most_shared)
            shared = jnp.asarray(table)[count]

            # the hidden layer and the output
            q, a = last
            joined = dropout(jnp.concatenate([q, a, q * a, shared], -1), train=train)
            hidden = Dense(config.dim, ("embed", "mlp"), self.dtype, name="hidden")
            return self._output(jnp.tanh(hidden(joined)))
