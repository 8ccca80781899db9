"""The decoder's causal self-attention (Vaswani et al. 2017, section 3.2.3), and its cache."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from common_jax.attention.layers import ProjectedKV, SelfAttention
from common_jax.pytrees import pytree
from csan_jax.attention.base import AttentionSettings, DecoderAttention


@pytree(static=["hypotheses"])
class Cache:
    """A decoder layer's keys and values at every step, for k hypotheses of each sentence.

    They are stored in the layout in which attention reads them, since any other would be copied at
    each step: entry n of `past` is of step n // k. Hypotheses attend by their ancestry
    (csan_jax.decode), so that the cache is never reordered.

    Attributes:
      hypotheses: k.
    """

    keys: Float[Array, "B H K past"]
    values: Float[Array, "B H past K"]
    hypotheses: int

    def extended(self, steps: Any) -> "Cache":
        """The cache with a capacity of `steps`."""
        none = (0, 0)
        more = (0, steps * self.hypotheses - self.keys.shape[3])
        keys = jnp.pad(self.keys, (none, none, none, more))
        values = jnp.pad(self.values, (none, none, more, none))
        return dataclasses.replace(self, keys=keys, values=values)

    def update(self, now: Int[Array, ""], new: ProjectedKV) -> "Cache":
        """Writes the keys and values of the k hypotheses at step `now`."""
        first = now * self.hypotheses
        keys = jax.lax.dynamic_update_slice_in_dim(self.keys, new[0], first, axis=3)
        values = jax.lax.dynamic_update_slice_in_dim(self.values, new[1], first, axis=2)
        return dataclasses.replace(self, keys=keys, values=values)


class CausalAttention(SelfAttention):
    """Self-attention of all positions at once, or of one position with a cache."""

    def step(
        self,
        x: Float[Array, "B k D"],
        cache: Cache,
        now: Int[Array, ""],
        ancestry: Bool[Array, "B k past"],
    ) -> tuple[Float[Array, "B k D"], Cache]:
        """One position, as specified in `DecoderAttention.module`."""
        cache = cache.update(now, self.project_kv(x))
        key_positions = jnp.arange(ancestry.shape[2]) // x.shape[1]  # entry n is of position n // k
        positions = jnp.broadcast_to(now, x.shape[1]), key_positions
        return self.attend_cached(x, (cache.keys, cache.values), ancestry, positions), cache


@dataclasses.dataclass(frozen=True)
class Causal(DecoderAttention):
    """The Transformer's causal self-attention."""

    def module(self, settings: AttentionSettings) -> CausalAttention:
        return settings.layer(CausalAttention)

    def cache(self, settings: AttentionSettings, rows: Any, steps: Any, hypotheses: int) -> Cache:
        past = steps * hypotheses
        size = settings.dim // settings.num_heads
        keys = jnp.zeros((rows, settings.num_heads, size, past), settings.dtype)
        values = jnp.zeros((rows, settings.num_heads, past, size), settings.dtype)
        return Cache(keys, values, hypotheses)
