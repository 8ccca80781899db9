"""Banded attention: equal to dense attention, in time and memory linear in the length.

Queries are split into blocks. Each block attends to its own keys and to a halo of half a window on
either side. Masks are split in the same way; no [T, S] array is created.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from common_jax.attention.dense import attend, head_halo, heads_first, union_of_heads
from common_jax.attention.request import Form, Request
from common_jax.masks import Mask, head_table, segments_meet

BLOCK = 32  # measured on a CPU: 16 and 64 are slower for one head in the area, no faster for three


class Banded(Form):
    """Self-attention in a token window."""

    def obstacles(self, request: Request) -> list[str]:
        bias = request.bias
        missing = {
            "masks without a token window": request.mask.window is None,
            "unequal numbers of queries and keys": request.query.shape[1] != request.key.shape[1],
            "return_weights": request.return_weights,
            "biases that are not relative": bias is not None and not bias.relative,
        }
        return [feature for feature, requested in missing.items() if requested]

    def __call__(self, request: Request) -> tuple[Float[Array, "B T H V"], None]:
        mask = request.mask
        assert mask.window is not None
        length, heads = request.query.shape[1:3]

        # blocks of queries, and of keys and values with the halo
        half = min(mask.window // 2, length - 1)
        block = block_length(length, mask.window)
        key_heads, value_heads, valid_heads = head_table(heads, mask.heads, mask.head_edge)
        (queries,) = cut(heads_first(request.query), block)
        keys = cut(head_halo(request.key, key_heads), block, half)
        values = cut(head_halo(request.value, value_heads), block, half)

        # attention of each block to its own keys
        out, _ = attend(
            queries,
            union_of_heads(keys, heads),
            union_of_heads(values, heads),
            allowed_in_blocks(mask, length, heads, block, half),
            valid_heads,
            request.bias,
            _block_positions(block, half),
            scale=request.scale,
            dropout_rate=request.dropout_rate,
            dropout_key=request.dropout_key,
        )
        out = out.reshape(*out.shape[:2], -1, out.shape[-1])[:, :, :length]
        return heads_first(out), None


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
