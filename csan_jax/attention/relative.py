"""REL_POS of Table 1: relative positions in keys and values (Shaw et al. 2018, Eq. 1-5).

With r = clip(j - i, -k, k):

- e_ij = q_i . (key_j + a^K_r) / sqrt(K);
- o_i = sum_j weight_ij (value_j + a^V_r).

Both tables a [2k + 1, K] are shared by the heads of a layer; each layer has its own. Table 1's
number of parameters is that of tables in all self-attentions of encoder and decoder.

Ours: the sinusoids remain; Shaw et al. remove them, as does `model.sinusoids=False`.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from common_jax.attention import Bias
from common_jax.attention.layers import SelfAttention
from common_jax.fields import size
from common_jax.layers import einsum
from common_jax.masks import Mask
from common_jax.pytrees import pytree
from csan_jax.attention.base import AttentionSettings, EncoderAttention
from csan_jax.attention.causal import Causal, CausalAttention


@pytree()
class RelativePositions(Bias):
    """Both terms, for one layer's scaled queries; R = 2k + 1.

    Terms by offset are expanded to keys by a product with a one-hot array [T, S, R], since the
    gradients of gathers are slow.
    """

    query: Float[Array, "B T H K"]
    keys: Float[Array, "R K"]
    table: Float[Array, "R K"]

    def at(
        self, query_positions: Int[Array, "T"], key_positions: Int[Array, "S"]
    ) -> Float[Array, "B H T S"]:
        scores = einsum("bthk,rk->bhtr", self.query, self.keys).astype(self.query.dtype)
        return einsum("bhtr,tsr->bhts", scores, self._offsets(query_positions, key_positions))

    def values(
        self,
        weights: Float[Array, "B H T S"],
        query_positions: Int[Array, "T"],
        key_positions: Int[Array, "S"],
    ) -> Float[Array, "B H T K"]:
        offsets = self._offsets(query_positions, key_positions)
        summed = einsum("bhts,tsr->bhtr", weights, offsets).astype(weights.dtype)
        return einsum("bhtr,rk->bhtk", summed, self.table)

    def _offsets(self, query_positions: Array, key_positions: Array) -> Float[Array, "T S R"]:
        """One-hot of each key's clipped offset from each query."""
        farthest = self.keys.shape[0] // 2
        offset = key_positions[None, :] - query_positions[:, None]
        index = jnp.clip(offset, -farthest, farthest) + farthest
        return jax.nn.one_hot(index, self.keys.shape[0], dtype=self.query.dtype)


class _Relative(nn.Module):
    """The tables and the bias, for both self-attentions below.

    Attributes:
      distance: k.
    """

    distance: int = 16

    def setup(self):
        super().setup()
        shape = 2 * self.distance + 1, self.dim // self.num_heads
        glorot = nn.initializers.xavier_uniform()
        self.relative_keys = self.param("relative_keys", glorot, shape)
        self.relative_values = self.param("relative_values", glorot, shape)

    def bias(self, query: Float[Array, "B T H K"], mask: Mask) -> RelativePositions:
        scaled = query * (self.dim // self.num_heads) ** -0.5
        tables = self.relative_keys, self.relative_values
        return RelativePositions(scaled, *(table.astype(query.dtype) for table in tables))


class RelativeAttention(_Relative, SelfAttention):
    """Self-attention with relative positions."""


class RelativeCausalAttention(_Relative, CausalAttention):
    """Causal self-attention with relative positions, also with a cache."""


@dataclasses.dataclass(frozen=True)
class Relative(EncoderAttention):
    """Relative positions in the encoder; in Shaw et al. all layers have them.

    Attributes:
      distance: k; larger offsets are clipped to it.
    """

    distance: int = size(16, least=0)

    def module(self, settings: AttentionSettings) -> RelativeAttention:
        return settings.layer(RelativeAttention, distance=self.distance)


@dataclasses.dataclass(frozen=True)
class RelativeCausal(Causal):
    """Relative positions in the decoder's self-attention.

    Attributes:
      distance: k; larger offsets are clipped to it.
    """

    distance: int = size(16, least=0)

    def module(self, settings: AttentionSettings) -> RelativeCausalAttention:
        return settings.layer(RelativeCausalAttention, distance=self.distance)
