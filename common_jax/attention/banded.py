"""The banded attention: the same numbers as the dense one, in time and memory linear in length.

Queries are cut into blocks, and each block gets exactly the keys that its windows reach: its own
and a halo of half a window on either side. No array of [T, S] is made anywhere; masks are cut the
same way.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Key, Shaped

from common_jax.attention.dense import attend_area, heads_first
from common_jax.masks import Mask, segments_meet

BLOCK = 32  # measured on a CPU: 16 and 64 are slower for one head in the area, no faster for three


def banded_attention(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B T H K"],
    value: Float[Array, "B T H V"],
    mask: Mask,
    *,
    scale: float,
    dropout_rate: float,
    dropout_key: Key[Array, ""] | None,
) -> Float[Array, "B T H V"]:
    """Self-attention whose `mask` has a token window and no explicit part."""
    assert mask.window is not None
    batch, length, heads, _ = query.shape
    half = min(mask.window // 2, length - 1)
    block = block_length(length, mask.window)
    key_segments = mask.key_segments
    if key_segments is None:
        key_segments = jnp.ones((1, length), bool)  # the halo beyond the borders becomes padding
    query_segments = mask.query_segments
    if query_segments is not None:
        query_segments = cut(query_segments, block)
    near = mask.band(jnp.arange(block), jnp.arange(-half, block + half), heads)
    meet = segments_meet(query_segments, cut(key_segments, block, half))
    out, _ = attend_area(
        heads_first(cut(query, block)),
        heads_first(cut(key, block, half)),
        heads_first(cut(value, block, half)),
        near[None] & meet[:, :, None],
        mask,
        scale=scale,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
    )
    return heads_first(out).reshape(batch, -1, heads, value.shape[-1])[:, :length]


def block_length(length: int, window: int) -> int:
    """Queries in a block: `BLOCK` or a little less, so that the last block is not mostly padding.

    A block holds a whole halo, so that the halo lies within two neighbouring blocks.
    """
    even = -(-length // -(-length // BLOCK))
    return max(even, 2 * min(window // 2, length - 1))


def cut(
    x: Shaped[Array, "B T *rest"], block: int, half: int = 0
) -> Shaped[Array, "B C block+2*half *rest"]:
    """Blocks of tokens with `half` more on either side; zeros (or False) beyond the borders."""
    batch, length, *rest = x.shape
    count = -(-length // block)
    after = count * block - length + (block - half if half else 0)
    x = jnp.pad(x, [(0, 0), (half, after), *[(0, 0)] * len(rest)])
    blocks = x.reshape(batch, -1, block, *rest)
    if not half:
        return blocks
    return jnp.concatenate([blocks[:, :-1], blocks[:, 1:, : 2 * half]], axis=2)
