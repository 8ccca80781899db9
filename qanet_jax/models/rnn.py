"""QANet with recurrent encoders: RNN-1, RNN-2 and RNN-3 of Yu et al. 2018 (Tables 3 and 8).

Attention, its projection and the pointers are QANet's. The paper replaces each "block", of the
embedding and of the model encoder, by one, two or three bidirectional LSTMs of 128 units. We read
"block" as the complete encoder; `lstm_per` selects the other reading. There are no position
encodings and no stochastic depth.
"""

import dataclasses
from typing import Any, Literal

import flax.linen as nn
from jaxtyping import Array, Bool, Float

from common_jax.fields import size
from common_jax.layers import Dense, Dropout
from common_jax.recurrent import LSTM, Bidirectional
from qanet_jax.models.five_layers import FiveLayers


@dataclasses.dataclass(frozen=True)
class RecurrentReader(FiveLayers):
    """QANet whose encoders are stacks of bidirectional LSTMs.

    Attributes:
      lstm_layers: number of bidirectional LSTMs in an encoder, or in each of its blocks.
      lstm_size: H, units of each direction.
      lstm_per: whether the LSTMs replace an "encoder", or each "block" of it.
      embedding_blocks, model_blocks: blocks of the encoders, with `lstm_per="block"`.
    """

    lstm_layers: int = size(1)
    lstm_size: int = size(128)
    lstm_per: Literal["encoder", "block"] = "encoder"
    embedding_blocks: int = size(1)
    model_blocks: int = size(7)

    def encoders(self, dtype: Any) -> tuple[nn.Module, nn.Module]:
        if self.lstm_per == "encoder":
            return RecurrentEncoder(self, 1, dtype), RecurrentEncoder(self, 1, dtype)
        embedding = RecurrentEncoder(self, self.embedding_blocks, dtype)
        return embedding, RecurrentEncoder(self, self.model_blocks, dtype)


class RecurrentEncoder(nn.Module):
    """Blocks of bidirectional LSTMs, each block followed by a linear map to the model's width.

    Dropout is between the layers.

    Attributes:
      config: sizes.
      blocks: number of blocks.
      dtype: of the matrix products; states are float32.
    """

    config: RecurrentReader
    blocks: int
    dtype: Any

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], valid: Bool[Array, "B T"], *, train: bool
    ) -> Float[Array, "B T D"]:
        config = self.config
        for block in range(self.blocks):
            for layer in range(config.lstm_layers):
                if block or layer:
                    x = Dropout(config.dropout)(x, train=train)
                lstm = Bidirectional(
                    LSTM, x.shape[-1], config.lstm_size, self.dtype, name=f"lstm_{block}_{layer}"
                )
                x = lstm(x, valid)[0].astype(self.dtype)
            name = f"projection_{block}"
            x = Dense(config.dim, ("embed", "mlp"), self.dtype, name=name)(x)
        return x
