"""Layers of multi-head attention."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from common_jax.attention.api import Implementation, attention
from common_jax.attention.bias import Bias
from common_jax.attention.dense import attend, heads_first
from common_jax.layers import DROPOUT, Dense
from common_jax.masks import Mask
from common_jax.sharding import spread

# Projected keys and values in the layout that decoding reads without a transpose.
ProjectedKV = tuple[Float[Array, "B H K S"], Float[Array, "B H S K"]]


class _Heads(nn.Module):
    """Scaled dot-product attention in `num_heads` subspaces (Vaswani et al. 2017, section 3.2).

    Q, K, V = x W_Q, m W_K, m W_V; the heads' outputs are concatenated and mapped by W_O; all four
    have biases. Without a token window in the mask, implementations other than "chunked" are dense.
    A subclass may add a bias to the scores.
    """

    dim: int
    num_heads: int
    dropout: float = 0.0
    implementation: Implementation = "auto"
    dtype: Any = jnp.float32

    def setup(self):
        self.query = Dense(self.dim, ("embed", "heads"), self.dtype)
        self.key = Dense(self.dim, ("embed", "heads"), self.dtype)
        self.value = Dense(self.dim, ("embed", "heads"), self.dtype)
        self.out = Dense(self.dim, ("heads", "embed"), self.dtype)

    def bias(self, query: Float[Array, "B T H K"], mask: Mask) -> Bias | None:
        """A term added to the scores; None is 0.

        Args:
          query: the projection of x, not scaled.
          mask: of this attention, with positions and lengths of segments.
        """
        return None

    def attend(
        self, x: Float[Array, "B T D"], memory: Float[Array, "B S D"], mask: Mask, *, train: bool
    ) -> Float[Array, "B T D"]:
        """Attention of each position of `x` to those of `memory`."""
        query = self.split_heads(self.query(x))
        key, value = self.keys_values(memory)
        bias = self.bias(query, mask)
        heads = self.weighted_values(query, key, value, mask, bias, train=train)
        return self.out(heads.reshape(x.shape))

    def weighted_values(
        self,
        query: Float[Array, "B T H K"],
        key: Float[Array, "B S H K"],
        value: Float[Array, "B S H K"],
        mask: Mask,
        bias: Bias | None = None,
        *,
        train: bool,
    ) -> Float[Array, "B T H K"]:
        """The weighted means of the values, by this layer's implementation and dropout."""
        dropped = train and self.dropout > 0
        only_dense = self.implementation != "chunked" and mask.window is None
        heads: Array = attention(
            query,
            key,
            value,
            mask,
            bias,
            dropout_rate=self.dropout if dropped else 0.0,
            dropout_key=self.make_rng(DROPOUT) if dropped else None,
            implementation="dense" if only_dense else self.implementation,
        )
        return heads

    def project_kv(self, memory: Float[Array, "B S D"]) -> ProjectedKV:
        """The keys and values of `memory` for `attend_cached`; decoding computes them once."""
        key, value = self.keys_values(memory)
        return jnp.moveaxis(key, 1, 3), heads_first(value)

    def attend_cached(
        self,
        x: Float[Array, "B T D"],
        keys_values: ProjectedKV,
        allowed: Bool[Array, "B #T S"],
        positions: tuple[Int[Array, "T"], Int[Array, "S"]] | None = None,
    ) -> Float[Array, "B T D"]:
        """Attention without dropout to the result of `project_kv`, transposing only the queries.

        Args:
          keys_values: without NaN, also where `allowed` is false.
          positions: of queries and keys, for a bias; None counts both from 0.
        """
        # projections and positions
        query = self.split_heads(self.query(x))
        keys, values = keys_values
        if positions is None:
            positions = (jnp.arange(x.shape[1]), jnp.arange(allowed.shape[-1]))

        # the weighted means of the values, through W_O
        out, _ = attend(
            heads_first(query),
            jnp.swapaxes(keys, 2, 3),  # no copy: fused into the product
            values,
            allowed[:, None],
            np.ones((self.num_heads, 1), bool),
            self.bias(query, Mask()),
            positions,
            scale=(self.dim // self.num_heads) ** -0.5,
            dropout_rate=0.0,
            dropout_key=None,
        )
        return self.out(heads_first(out).reshape(x.shape))

    def keys_values(
        self, memory: Float[Array, "B S D"]
    ) -> tuple[Float[Array, "B S H K"], Float[Array, "B S H K"]]:
        """The projections of `memory` for all heads."""
        return self.split_heads(self.key(memory)), self.split_heads(self.value(memory))

    def split_heads(self, x: Float[Array, "B T D"]) -> Float[Array, "B T H K"]:
        """The slice of each head."""
        heads = x.reshape(*x.shape[:-1], self.num_heads, self.dim // self.num_heads)
        return spread(heads, "heads", axis=-2)


class MultiHeadAttention(_Heads):
    """Attention of one sequence to another, or to itself (Vaswani et al. 2017, section 3.2)."""

    def __call__(
        self, x: Float[Array, "B T D"], memory: Float[Array, "B S D"], mask: Mask, *, train: bool
    ) -> Float[Array, "B T D"]:
        """Attention of each position of `x` to `memory`, which is `x` in self-attention."""
        return self.attend(x, memory, mask, train=train)


class SelfAttention(_Heads):
    """Attention of a sequence to itself."""

    def __call__(
        self, x: Float[Array, "B T D"], mask: Mask, *, train: bool
    ) -> Float[Array, "B T D"]:
        """Attention of each position to those that the mask allows."""
        return self.attend(x, x, mask, train=train)

    def weights(self, x: Float[Array, "B T D"], mask: Mask) -> Float[Array, "B H T N T"]:
        """The attention weights."""
        query = self.split_heads(self.query(x))
        key, value = self.keys_values(x)
        bias = self.bias(query, mask)
        _, weights = attention(
            query, key, value, mask, bias, implementation="dense", return_weights=True
        )
        return weights
