"""Dropout that is cheap where random numbers are not: on a CPU."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key


def dropout(
    x: Float[Array, "*dims"], rate: float, key: Key[Array, ""] | None
) -> Float[Array, "*dims"]:
    """Zeroes each element with probability `rate` and divides the others by the rest.

    One 32-bit word serves two elements: half the generator's work of `jax.random.bernoulli`, and
    the time of a call halves with it. The rate is thereby a multiple of 2^-16 (off by at most
    8e-6), and the division is by the probability that was used.

    Raises:
      ValueError: for a rate outside [0, 1), or a rate above 0 without a key.
    """
    kept = round((1 - rate) * 2**16)
    if not 0 < kept <= 2**16:
        raise ValueError(f"a dropout rate is at least 0 and below 1, not {rate}")
    if kept == 2**16:
        return x
    if key is None:
        raise ValueError(f"dropout at rate {rate} needs a random key")
    return jnp.where(_random16(key, x.shape) < jnp.uint16(kept), x * (2**16 / kept), 0)


def _random16(key: Key[Array, ""], shape: tuple[int, ...]) -> jax.Array:
    """Independent uniform 16-bit integers; the last axis is halved: others may be sharded."""
    *others, last = shape or (1,)
    words = jax.random.bits(key, (*others, -(-last // 2)), jnp.uint32)
    halves = [words.astype(jnp.uint16), (words >> jnp.uint32(16)).astype(jnp.uint16)]
    return jnp.concatenate(halves, axis=-1)[..., :last].reshape(shape)
