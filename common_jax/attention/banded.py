"""Banded attention: equal to dense attention, in time and memory linear in the length.

Queries are split into blocks. Each block attends to its own keys and to a halo of half a window on
either side. Masks are split in the same way; no [T, S] array is created.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from common_jax.attention.bias import Bias
from common_jax.attention.dense import attend, head_halo, heads_first, union_of_heads
from common_jax.masks import Mask, head_table, segments_meet

BLOCK = 32  # measured on a CPU: 16 and 64 are slower for one head in the area, no faster for three


def banded_attention(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B T H K"],
    value: Float[Array, "B T H V"],
    mask: Mask,
    bias: Bias | None,
    *,
    scale: float,
    dropout_rate: float,
    dropout_key: Key[Array, ""] | None,
) -> Float[Array, "B T H V"]:
    """Self-attention in the token window of `mask`; the `bias` must be relative."""
    assert mask.window is not None
    length, heads = query.shape[1:3]
    half = min(mask.window // 2, length - 1)
    block = block_length(length, mask.window)
    key_heads, value_heads, valid_heads = head_table(heads, mask.heads, mask.head_edge)
    (blocks,) = cut(heads_first(query), block)
    out, _ = attend(
        blocks,
        union_of_heads(cut(head_halo(key, key_heads), block, half), heads),
        union_of_heads(cut(head_halo(value, value_heads), block, half), heads),
        allowed_in_blocks(mask, length, heads, block, half),
        valid_heads,
        bias,
        _block_positions(block, half),
        scale=scale,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
    )
    out = out.reshape(*out.shape[:2], -1, out.shape[-1])[:, :, :length]
    return heads_first(out)


def allowed_in_blocks(
    mask: Mask, length: int, heads: int, block: int, half: int
) -> Bool[Array, "b h C t t+2*{half}"]:
    """The mask between the t queries of each block and its keys."""
    near = mask.band(*_block_positions(block, half), heads)
    keys = mask.key_segments
    if keys is None:
        keys = jnp.ones((1, length), bool)  # the halo beyond the borders becomes padding
    meet = segments_meet(_cut_ids(mask.query_segments, block), _cut_ids(keys, block, half))
    return near[:, :, None] & meet


def _block_positions(block: int, half: int) -> tuple[Int[Array, "t"], Int[Array, "t+2*{half}"]]:
    """The positions of a block's queries and keys, relative to its first query."""
    return jnp.arange(block), jnp.arange(-half, block + half)


def _cut_ids(ids: Array | None, block: int, half: int = 0) -> Shaped[Array, "B 1 C _"] | None:
    if ids is None:
        return None
    return jnp.concatenate(cut(ids[:, None, :, None], block, half), axis=-2)[..., 0]


def block_length(length: int, window: int) -> int:
    """The number of queries in a block: `BLOCK` or slightly less, for little padding in the last
    block, and at least the size of both halos, so that they lie within the neighbouring blocks."""
    even = -(-length // -(-length // BLOCK))
    return max(even, 2 * min(window // 2, length - 1))


def cut(x: Shaped[Array, "B H T K"], block: int, half: int = 0) -> list[Shaped[Array, "B H C _ K"]]:
    """Splits tokens into blocks with `half` more on either side; zeros (or False) beyond the ends.

    Returns: the first `block` tokens of each block, and the rest, for the caller to concatenate.
    """
    batch, heads, length, size = x.shape
    after = -length % block + (block - half if half else 0)
    x = jnp.pad(x, ((0, 0), (0, 0), (half, after), (0, 0)))
    blocks = x.reshape(batch, heads, -1, block, size)
    return [blocks[:, :, :-1], blocks[:, :, 1:, : 2 * half]] if half else [blocks]
