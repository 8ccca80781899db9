"""NEIGHBOR of Table 1: a Gaussian of trained width around each query (Sperber et al. 2018, 3.3).

bias_ij = -(i - j)^2 / (2 sigma_h^2), with one sigma a head and layer.

Ours: the logarithm of sigma is trained instead of its square root; sigma is at least 0.1, and
initially 10 words instead of 100 frames of speech.
"""

import dataclasses
import math
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from common_jax.attention import Bias
from common_jax.attention.layers import SelfAttention
from common_jax.fields import require
from common_jax.masks import Mask
from common_jax.pytrees import pytree
from csan_jax.attention.base import AttentionSettings, EncoderAttention

LEAST = 0.1  # words


@pytree()
class Distance(Bias):
    """-(i - j)^2 / (2 sigma_h^2)."""

    sigma: Float[Array, "H"]
    relative: ClassVar[bool] = True

    def at(
        self, query_positions: Int[Array, "T"], key_positions: Int[Array, "S"]
    ) -> Float[Array, "1 H T S"]:
        offset = (key_positions[None, :] - query_positions[:, None]).astype(jnp.float32)
        return -(offset**2)[None, None] / (2 * self.sigma[None, :, None, None] ** 2)


class NeighborAttention(SelfAttention):
    """Self-attention with a `Distance` bias.

    Attributes:
      sigma: initial value, in words.
    """

    sigma: float = 10.0

    def setup(self):
        super().setup()
        start = nn.initializers.constant(math.log(self.sigma))
        self.log_sigma = self.param("log_sigma", start, (self.num_heads,))

    def bias(self, query: Float[Array, "B T H K"], mask: Mask) -> Distance:
        """The bias of the distance, with each head's width."""
        return Distance(jnp.exp(jnp.maximum(self.log_sigma, math.log(LEAST))))


@dataclasses.dataclass(frozen=True)
class Neighbor(EncoderAttention):
    """Trained widths (Sperber et al.); `Localness(centre="own")` predicts them.

    Attributes:
      sigma: initial value, in words.
    """

    sigma: float = 10.0

    def check(self, settings: AttentionSettings) -> None:
        super().check(settings)
        require(
            LEAST < self.sigma < math.inf,
            f"model.encoder_attention.sigma={self.sigma}: more than {LEAST}, and finite",
        )

    def module(self, settings: AttentionSettings) -> NeighborAttention:
        return settings.layer(NeighborAttention, sigma=self.sigma)
