"""A sentence-pair LSTM (Bowman et al. 2015, section 3.3); "bi" refers to the two texts, not to
directions.

Words are mapped to 100 features by a tanh layer; one LSTM reads both texts; its last states are
concatenated, followed by three tanh layers and a softmax.
"""

import dataclasses
from collections.abc import Sequence

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from attconv_jax.models.base import PairModel, PairModule, Text, network_of
from common_jax.fields import rate, size
from common_jax.layers import Dense, Dropout
from common_jax.recurrent import LSTM
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class BiLSTM(PairModel):
    """One LSTM over each text.

    Attributes:
      dim: size of the mapped words and of the LSTM.
      hidden: width of the tanh layers.
      dropout: rate on the mapped words and on the last states.
    """

    dim: int = size(100)
    hidden: int = size(200)
    dropout: float = rate(0.1)


@network_of(BiLSTM)
class BiLSTMModule(PairModule):
    """The network."""

    config: BiLSTM

    @nn.compact
    def __call__(self, texts: Sequence[Text], *, train: bool) -> Float[Array, "B labels"]:
        config = self.config
        dropout = Dropout(config.dropout)
        project = Dense(config.dim, ("embed", "mlp"), self.dtype, name="project")
        lstm = LSTM(config.dim, config.dim, self.dtype, name="lstm")

        # the last state of each text
        with scope("recurrent"):
            last = []
            for text in texts:
                mapped = dropout(jnp.tanh(project(text.words)), train=train)
                _, state = lstm(mapped, text.valid)
                last.append(state.hidden)

        # three tanh layers and the softmax
        with scope("head"):
            x = dropout(jnp.concatenate(last, -1), train=train)
            for n in range(3):
                layer = Dense(config.hidden, ("embed", "mlp"), self.dtype, name=f"tanh_{n}")
                x = jnp.tanh(layer(x))
            return self._output(x)
