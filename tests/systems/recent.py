"""A toy decoder attention: each head learns how much it prefers recent positions."""

import dataclasses
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from common_jax.attention import Bias
from csan_jax.attention.causal import Causal, CausalAttention


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Recency(Bias):
    """slope_h (j - i)."""

    slope: jax.Array
    relative: ClassVar[bool] = True

    def at(self, query_positions, key_positions):
        offset = (key_positions[None, :] - query_positions[:, None]).astype(jnp.float32)
        return self.slope[None, :, None, None] * offset[None, None]


class RecentAttention(CausalAttention):
    def setup(self):
        super().setup()
        self.slope = self.param("slope", nn.initializers.constant(1.0), (self.num_heads,))

    def bias(self, query, mask):
        return Recency(self.slope)


@dataclasses.dataclass(frozen=True)
class Recent(Causal):
    def module(self, settings):
        return settings.layer(RecentAttention)
