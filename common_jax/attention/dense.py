"""The dense attention, which defines what every implementation computes.

CSAN's Equations 4-9 in full arrays: the union of the keys of a head and its neighbours (7), of
their values (8), and one softmax over all tokens and heads of that area (9). With one head in the
area and no window it is Equation 2.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from common_jax.attention.bias import Bias
from common_jax.dropout import dropout
from common_jax.masks import MASKED, Mask, head_table


def dense_attention(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    value: Float[Array, "B S H V"],
    mask: Mask,
    bias: Bias | None,
    *,
    scale: float,
    dropout_rate: float,
    dropout_key: Key[Array, ""] | None,
) -> tuple[Float[Array, "B T H V"], Float[Array, "B H T N S"]]:
    """Output and weights; every pair of tokens is computed."""
    (queries, heads), keys = query.shape[1:3], key.shape[1]
    key_heads, value_heads, seen = head_table(heads, mask.heads, mask.head_edge)
    out, weights = attend(
        heads_first(query),
        union_of_heads([head_halo(key, key_heads)], heads),
        union_of_heads([head_halo(value, value_heads)], heads),
        mask.allowed(queries, keys, heads),
        seen,
        bias,
        (jnp.arange(queries), jnp.arange(keys)),
        scale=scale,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
    )
    return heads_first(out), weights.reshape(*weights.shape[:-1], mask.heads, -1)


def attend(
    query: Float[Array, "B H *C T K"],
    keys: Float[Array, "B H *C U K"],
    values: Float[Array, "B H *C U V"],
    allowed: Bool[Array, "b h *c #T S"],
    seen: Bool[np.ndarray, "H N"],
    bias: Bias | None,
    positions: tuple[Int[Array, "T"], Int[Array, "S"]],
    *,
    scale: float,
    dropout_rate: float,
    dropout_key: Key[Array, ""] | None,
) -> tuple[Float[Array, "B H *C T V"], Float[Array, "B H *C T U"]]:
    """Equation 9, and the weights, over U = N S keys and values that the area has united.

    C is nothing, or the banded form's blocks of queries, which have the same `positions`. The
    division by the softmax's sum comes last, when the weights of a query have become V numbers.
    """

    def of_area(x: Array) -> Array:
        return jnp.concatenate([x if query.ndim == 4 else x[:, :, None]] * seen.shape[1], axis=-1)

    scores = product("...tk,...sk->...ts", query, keys)
    scores = scores * scale
    if bias is not None:
        scores = scores + of_area(bias.at(*positions))
    scores = jnp.where(mask_of_area(allowed, seen), scores, MASKED)
    peak = jax.lax.stop_gradient(scores.max(-1, keepdims=True))
    exponentials = jnp.exp(scores - peak)
    total = exponentials.sum(-1, keepdims=True)
    # The own head is in every area, so that the tokens alone tell whether a query has a key.
    has_key = allowed.any(-1, keepdims=True)

    if bias is not None and (factor := bias.factor(*positions)) is not None:
        exponentials = exponentials * of_area(factor)
    remaining = dropout(exponentials, dropout_rate, dropout_key).astype(values.dtype)
    summed = product("...ts,...sv->...tv", remaining, values)
    if bias is not None and not bias.relative:
        by_token = remaining.reshape(*remaining.shape[:-1], seen.shape[1], -1).sum(-2)
        if (own := bias.values(by_token, *positions)) is not None:
            summed = summed + own
    out = jnp.where(has_key, summed / total, 0).astype(query.dtype)
    return out, jnp.where(has_key, exponentials / total, 0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def product(equation: str, a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    """An einsum of two arrays of one type, summed in float32. The products of its backward pass
    have factors of that type too, and not float32 ones; but for a CPU, not all of whose products
    have a result of another type."""
    einsum = functools.partial(jnp.einsum, equation, preferred_element_type=jnp.float32)
    if a.dtype == jnp.float32:
        return einsum(a, b)
    wide = lambda *factors: einsum(*(x.astype(jnp.float32) for x in factors))
    return jax.lax.platform_dependent(a, b, cpu=wide, default=einsum)


def _product_backward(equation, factors, cotangent):
    (a, b), (left, right, out) = factors, equation.replace("->", ",").split(",")
    cotangent = cotangent.astype(a.dtype)
    to_a = product(f"{out},{right}->{left}", cotangent, b)
    to_b = product(f"{out},{left}->{right}", cotangent, a)
    return to_a.astype(a.dtype), to_b.astype(b.dtype)


product.defvjp(lambda equation, a, b: (product(equation, a, b), (a, b)), _product_backward)


def head_halo(
    x: Float[Array, "B S H K"], heads: Int[np.ndarray, "H N"]
) -> Float[Array, "B H+N-1 S K"]:
    """The heads and beyond them what their areas see there, from a table [H, N] of heads.

    A column of the table is one run of heads, begun one head later than the column before: slices
    serve, which cost less than a gather, above all in the gradient.
    """
    sequence = np.concatenate([heads[:, 0], heads[-1, 1:]])
    runs = np.split(sequence, np.flatnonzero(np.diff(sequence) != 1) + 1)
    x = heads_first(x)
    return jnp.concatenate([x[:, run[0] : run[-1] + 1] for run in runs], axis=1)


def union_of_heads(
    parts: Sequence[Float[Array, "B _ *C _ K"]], heads: int
) -> Float[Array, "B {heads} *C U K"]:
    """Equations 7 and 8: each head's area, out of all `parts` of the S tokens.

    The area's heads follow one another on the axis of tokens, so that what comes after is ordinary
    attention: with an axis of their own the products take up to twice the time.
    """
    starts = range(parts[0].shape[1] - heads + 1)
    return jnp.concatenate([part[:, n : n + heads] for n in starts for part in parts], axis=-2)


def mask_of_area(
    allowed: Bool[Array, "b h *c #T S"], seen: Bool[np.ndarray, "H N"]
) -> Bool[Array, "b _ *c T N*S"]:
    """Which keys of `union_of_heads` may be attended to, where `seen` tells real heads."""
    if seen.all():
        return jnp.concatenate([allowed] * seen.shape[1], axis=-1)
    columns = [column.reshape(1, -1, *(1,) * (allowed.ndim - 2)) for column in seen.T]
    return jnp.concatenate([allowed & column for column in columns], axis=-1)


def heads_first(x: Float[Array, "B T H K"]) -> Float[Array, "B H T K"]:
    """Exchanges tokens and heads: the products then need no transposition of their own."""
    return jnp.swapaxes(x, 1, 2)
