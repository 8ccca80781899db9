"""The decoder's causal self-attention (Vaswani et al. 2017, section 3.2.3), and its cache."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from common_jax.layers import ProjectedKV, SelfAttention
from common_jax.pytrees import pytree
from csan_jax.attention.base import DecoderAttention, Sizes


@pytree()
class Cache:
    """A decoder layer's keys and values at every step, for k hypotheses of each sentence.

    They are stored in the layout in which attention reads them. Hypotheses attend by their ancestry
    (csan_jax.decode), so that the cache is never reordered.
    """

    keys: Float[Array, "B H K steps k"]
    values: Float[Array, "B H steps k K"]

    @property
    def steps(self) -> Any:
        """The capacity in steps."""
        return self.values.shape[2]

    def extended(self, steps: Any) -> "Cache":
        """The cache with a capacity of `steps`."""
        more, none = (0, steps - self.steps), (0, 0)
        return Cache(
            jnp.pad(self.keys, (none, none, none, more, none)),
            jnp.pad(self.values, (none, none, more, none, none)),
        )

    def update(self, now: Int[Array, ""], new: ProjectedKV) -> "Cache":
        """Writes the keys and values of the k hypotheses at step `now`."""
        write = jax.lax.dynamic_update_slice_in_dim
        return Cache(
            write(self.keys, new[0][..., None, :], now, axis=3),
            write(self.values, new[1][:, :, None], now, axis=2),
        )

    def flatten(self) -> ProjectedKV:
        """All entries, as steps * k positions."""
        keys, values = self.keys, self.values
        flat = values.reshape(*values.shape[:2], -1, values.shape[-1])
        return keys.reshape(*keys.shape[:3], -1), flat


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
        places = jnp.arange(ancestry.shape[2]) // x.shape[1]  # entry n is of position n // k
        positions = jnp.broadcast_to(now, x.shape[1]), places
        return self.attend_cached(x, cache.flatten(), ancestry, positions), cache


@dataclasses.dataclass(frozen=True)
class Causal(DecoderAttention):
    """The Transformer's causal self-attention."""

    def module(self, sizes: Sizes) -> CausalAttention:
        return CausalAttention(**sizes.heads)

    def cache(self, sizes: Sizes, rows: Any, steps: Any, hypotheses: int) -> Cache:
        heads, size = sizes.num_heads, sizes.dim // sizes.num_heads
        empty = lambda *dims: jnp.zeros((rows, heads, *dims), sizes.dtype)
        return Cache(empty(size, steps, hypotheses), empty(steps, hypotheses, size))
