"""A toy encoder attention: each head learns a preference for the middle of the sentence and for
near words; a learned gate before it is a further sub-layer."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp

from common_jax.attention import Bias
from common_jax.attention.layers import SelfAttention
from common_jax.fields import require
from common_jax.masks import Mask, valid
from csan_jax.attention.base import EncoderAttention


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Preference(Bias):
    """-near_h |j - i| - middle_h |j / length - 1/2|, positions and length those of the segment."""

    near: jax.Array
    middle: jax.Array
    places: jax.Array
    lengths: jax.Array

    def at(self, query_positions, key_positions):
        distance = jnp.abs(key_positions[None, :] - query_positions[:, None]).astype(jnp.float32)
        share = self.places / jnp.maximum(self.lengths, 1)  # [B, S]
        off = jnp.abs(share - 0.5)[:, None, None, :][..., key_positions]
        near, middle = (x[None, :, None, None] for x in (self.near, self.middle))
        return -near * distance[None, None] - middle * off


class NearAttention(SelfAttention):
    start: float = 0.5

    def setup(self):
        super().setup()
        self.near = self.param("near", nn.initializers.constant(self.start), (self.num_heads,))
        self.middle = self.param("middle", nn.initializers.constant(self.start), (self.num_heads,))

    def bias(self, query, mask):
        length = query.shape[1]
        places = jnp.broadcast_to(mask.key_positions(length), query.shape[:2])
        return Preference(self.near, self.middle, places, mask.key_lengths(length))


class Gate(nn.Module):
    """x + g x at words, with g learned from 0."""

    @nn.compact
    def __call__(self, x, mask, *, train):
        gate = self.param("gate", nn.initializers.zeros, (x.shape[-1],)).astype(x.dtype)
        return x + jnp.where(valid(mask.key_segments)[..., None], gate[None, None] * x, 0)


@dataclasses.dataclass(frozen=True)
class Nearness(EncoderAttention):
    """Attributes:
    start: initial value of both preferences.
    """

    start: float = 0.5

    def check(self, settings):
        super().check(settings)
        require(self.start >= 0, f"model.encoder_attention.start={self.start}: not negative")

    def mask(self):
        return Mask()

    def module(self, settings):
        return settings.layer(NearAttention, start=self.start)

    def before(self, settings):
        return Gate()
