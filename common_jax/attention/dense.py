"""The dense attention, which defines what every implementation computes.

CSAN's Equations 4-9 in full arrays: the union of the keys of a head and its neighbours (7), of
their values (8), and one softmax over all tokens and heads of that area (9). With one head in the
area and no window it is Equation 2.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from common_jax.dropout import dropout
from common_jax.masks import Mask, head_table

MASKED = -1e30  # finite: a row of minus infinities would turn into NaN


def dense_attention(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    value: Float[Array, "B S H V"],
    mask: Mask,
    *,
    scale: float,
    dropout_rate: float,
    dropout_key: Key[Array, ""] | None,
) -> tuple[Float[Array, "B T H V"], Float[Array, "B H T N S"]]:
    """Output and weights; every pair of tokens is computed."""
    allowed = mask.allowed(query.shape[1], key.shape[1], query.shape[2])
    out, weights = attend_area(
        heads_first(query),
        heads_first(key),
        heads_first(value),
        allowed,
        mask,
        scale=scale,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
    )
    return heads_first(out), weights


def attend_area(
    query: Float[Array, "*B H T K"],
    key: Float[Array, "*B H S K"],
    value: Float[Array, "*B H S V"],
    allowed: Bool[Array, "*b h T S"],
    mask: Mask,
    *,
    scale: float,
    dropout_rate: float,
    dropout_key: Key[Array, ""] | None,
) -> tuple[Float[Array, "*B H T V"], Float[Array, "*B H T N S"]]:
    """Equations 7-9 for given tokens; the banded form calls it for each block of queries.

    The division by the softmax's sum comes last, when the weights have become V numbers.
    """
    key_heads, value_heads, seen = head_table(query.shape[-3], mask.heads, mask.head_edge)
    keys, values = union_of_heads(key, key_heads), union_of_heads(value, value_heads)
    area = mask_of_area(allowed, seen)

    scores = jnp.einsum("...tk,...sk->...ts", query, keys, preferred_element_type=jnp.float32)
    scores = jnp.where(area, scores * scale, MASKED)
    peak = jax.lax.stop_gradient(scores.max(-1, keepdims=True))
    exponentials = jnp.exp(scores - peak)
    total = exponentials.sum(-1, keepdims=True)
    # The own head is in every area, so that the tokens alone tell whether a row has a key.
    has_key = allowed.any(-1, keepdims=True)

    kept = dropout(exponentials, dropout_rate, dropout_key).astype(value.dtype)
    summed = jnp.einsum("...ts,...sv->...tv", kept, values, preferred_element_type=jnp.float32)
    out = jnp.where(has_key, summed / total, 0).astype(query.dtype)
    weights = jnp.where(has_key, exponentials / total, 0)
    return out, weights.reshape(*weights.shape[:-1], mask.heads, -1)


def union_of_heads(x: Float[Array, "*B H S K"], heads: np.ndarray) -> Float[Array, "*B H N*S K"]:
    """Equations 7 and 8: each head's area, given the numbers [H, N] of the heads in it.

    Their tokens follow one another on one axis, so that what comes after is ordinary attention:
    with an axis of its own for the N heads the products take up to twice the time. A column of the
    table is a run of heads, begun one head later than the column before; slices cost less than a
    gather, above all in the gradient.
    """
    count, size = heads.shape
    sequence = np.concatenate([heads[:, 0], heads[-1, 1:]])
    runs = np.split(sequence, np.flatnonzero(np.diff(sequence) != 1) + 1)
    halo = jnp.concatenate([x[..., run[0] : run[-1] + 1, :, :] for run in runs], axis=-3)
    return jnp.concatenate([halo[..., n : n + count, :, :] for n in range(size)], axis=-2)


def mask_of_area(allowed: Bool[Array, "*b h T S"], seen: np.ndarray) -> Bool[Array, "*b h T N*S"]:
    """Which keys of `union_of_heads` may be attended to, where `seen` [H, N] tells real heads."""
    if seen.all():
        return jnp.concatenate([allowed] * seen.shape[1], axis=-1)
    seen = seen.reshape(*(1,) * (allowed.ndim - 3), len(seen), 1, -1)
    return jnp.concatenate([allowed & column for column in np.split(seen, seen.shape[-1], -1)], -1)


def heads_first(x: Float[Array, "*B T H K"]) -> Float[Array, "*B H T K"]:
    """Exchanges tokens and heads: the products then need no transposition of their own."""
    return jnp.swapaxes(x, -2, -3)
