"""Dropout that is cheap where random numbers are not: on a CPU."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key


def dropout(
    x: Float[Array, "*dims"], rate: float, key: Key[Array, ""] | None
) -> Float[Array, "*dims"]:
    """Zeroes each element with probability `rate` and divides the others by the rest.

    Raises:
      ValueError: for a rate outside [0, 1), or a rate above 0 without a key.
    """
    if rate == 0:
        return x
    return drop(x, rate, keep_mask(rate, key, x.shape))


def keep_mask(
    rate: float, key: Key[Array, ""] | None, shape: tuple[int, ...]
) -> Bool[Array, "*dims"]:
    """Which elements `drop` keeps: several arrays' at once, where each alone takes long to compile.

    One 32-bit word serves two elements: half the generator's work of `jax.random.bernoulli`, and
    the time of a call halves with it. The rate is thereby a multiple of 2^-16 (off by at most
    8e-6), and `drop` divides by the probability that was used.

    Raises:
      ValueError: for a rate outside [0, 1), or no key.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"a dropout rate is at least 0 and below 1, not {rate}")
    if key is None:
        raise ValueError(f"dropout at rate {rate} needs a random key")
    return _random16(key, shape) <= jnp.uint16(_kept(rate) - 1)


def drop(
    x: Float[Array, "*dims"], rate: float, kept: Bool[Array, "*dims"]
) -> Float[Array, "*dims"]:
    """Zeroes what is not kept and divides the rest by the probability to be."""
    return jnp.where(kept, x * (2**16 / _kept(rate)), 0)


def _kept(rate: float) -> int:
    """Of 2^16 elements, how many are kept; at least one."""
    return max(1, round((1 - rate) * 2**16))


def _random16(key: Key[Array, ""], shape: tuple[int, ...]) -> jax.Array:
    """Independent uniform 16-bit integers.

    They are drawn with two axes, the first of `shape` and one for all others: with four it takes
    six times as long to compile. The first may be sharded.
    """
    first, *others = shape or (1,)
    elements = math.prod(others)
    words = jax.random.bits(key, (first, -(-elements // 2)), jnp.uint32)
    halves = [words.astype(jnp.uint16), (words >> jnp.uint32(16)).astype(jnp.uint16)]
    return jnp.concatenate(halves, axis=1)[:, :elements].reshape(shape)
