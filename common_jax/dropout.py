"""Dropout with 16 random bits an element, for CPUs, where generating random numbers dominates."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, UInt32


def dropout(
    x: Float[Array, "*dims"], rate: float, key: Key[Array, ""] | None
) -> Float[Array, "*dims"]:
    """Zeroes each element with probability `rate` and divides the others by 1 - `rate`.

    Raises:
      ValueError: for a rate outside [0, 1), or a rate above 0 without a key.
    """
    if rate == 0:
        return x
    return drop(x, rate, keep_mask(rate, key, x.shape))


def keep_mask(
    rate: float, key: Key[Array, ""] | None, shape: tuple[int, ...]
) -> Bool[Array, "*dims"]:
    """A mask of the elements that `drop` keeps; one mask for several arrays compiles faster.

    One 32-bit word serves two elements. The rate is rounded to a multiple of 2^-16 (an error of at
    most 8e-6), and `drop` divides by the probability of the rounded rate.

    Raises:
      ValueError: for a rate outside [0, 1), or no key.
    """
    if not 0 <= rate < 1:
        raise ValueError(f"a dropout rate is at least 0 and below 1, not {rate}")
    if key is None:
        raise ValueError(f"dropout at rate {rate} needs a random key")
    return _random16(key, shape) <= jnp.uint16(_kept_of_65536(rate) - 1)


def drop(
    x: Float[Array, "*dims"], rate: float, keep: Bool[Array, "*dims"]
) -> Float[Array, "*dims"]:
    """Zeroes the elements that are not kept and divides the others by the keep probability."""
    return jnp.where(keep, x * (2**16 / _kept_of_65536(rate)), 0)


def _kept_of_65536(rate: float) -> int:
    """The keep probability in units of 2^-16; at least one."""
    return max(1, round((1 - rate) * 2**16))


def _random16(key: Key[Array, ""], shape: tuple[int, ...]) -> jax.Array:
    """Independent uniform 16-bit integers.

    Element (i, j), with j over all axes but the first, depends on i, j and the key alone, not on
    the sharding.
    """
    # a word for each two elements of a row
    first, *trailing = shape or (1,)
    elements = math.prod(trailing)
    size = (first, -(-elements // 2))
    row, column = (jax.lax.broadcasted_iota(jnp.uint32, size, axis) for axis in (0, 1))

    # the barrier makes XLA compute the words once for both halves
    words = jax.lax.optimization_barrier(threefry(key, row, column)[0])
    halves = [words.astype(jnp.uint16), (words >> jnp.uint32(16)).astype(jnp.uint16)]
    return jnp.concatenate(halves, axis=1)[:, :elements].reshape(shape)


def threefry(
    key: Key[Array, ""], high: UInt32[Array, "*dims"], low: UInt32[Array, "*dims"]
) -> tuple[UInt32[Array, "*dims"], UInt32[Array, "*dims"]]:
    """Two random words for each counter: Threefry-2x32 with 20 rounds (Salmon et al. 2011).

    `jax.random.bits` runs the rounds on a CPU in a loop over arrays in memory, to compile faster,
    and adds two words to one; written out, the rounds are one pass.
    """
    # three words of the key
    first, second = jax.random.key_data(key).reshape(-1)[:2]
    keys = (first, second, first ^ second ^ jnp.uint32(0x1BD11BDA))
    high = high + keys[0]
    low = low + keys[1]

    # 20 rounds, with two words of the key added after each four
    for group in range(5):
        for distance in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            left = jnp.uint32(distance)
            right = jnp.uint32(32 - distance)
            high = high + low
            low = ((low << left) | (low >> right)) ^ high
        high = high + keys[(group + 1) % 3]
        low = low + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return high, low
