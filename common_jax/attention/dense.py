"""Dense attention, the definition for all implementations.

CSAN's Equations 4-9 in full arrays: the union of the keys of a head and its neighbours (7), of
their values (8), and one softmax over all tokens and heads of that area (9). With one head in the
area and no window it is Equation 2.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from common_jax.attention.bias import Bias
from common_jax.attention.request import Form, Request
from common_jax.dropout import dropout
from common_jax.layers import einsum
from common_jax.masks import MASKED, head_table


class Dense(Form):
    """Every pair of tokens, with any mask and bias."""

    def obstacles(self, request: Request) -> list[str]:
        return []

    def __call__(
        self, request: Request
    ) -> tuple[Float[Array, "B T H V"], Float[Array, "B H T N S"]]:
        mask = request.mask
        queries, heads = request.query.shape[1:3]
        keys = request.key.shape[1]

        # Equations 7 and 8
        key_heads, value_heads, valid_heads = head_table(heads, mask.heads, mask.head_edge)
        key_union = union_of_heads([head_halo(request.key, key_heads)], heads)
        value_union = union_of_heads([head_halo(request.value, value_heads)], heads)

        # Equation 9
        out, weights = attend(
            heads_first(request.query),
            key_union,
            value_union,
            mask.allowed(queries, keys, heads),
            valid_heads,
            request.bias,
            (jnp.arange(queries), jnp.arange(keys)),
            scale=request.scale,
            dropout_rate=request.dropout_rate,
            dropout_key=request.dropout_key,
        )
        return heads_first(out), weights.reshape(*weights.shape[:-1], mask.heads, -1)


def attend(
    query: Float[Array, "B H *C T K"],
    keys: Float[Array, "B H *C U K"],
    values: Float[Array, "B H *C U V"],
    allowed: Bool[Array, "b h *c #T S"],
    valid_heads: Bool[np.ndarray, "H N"],
    bias: Bias | None,
    positions: tuple[Int[Array, "T"], Int[Array, "S"]],
    *,
    scale: float,
    dropout_rate: float,
    dropout_key: Key[Array, ""] | None,
) -> tuple[Float[Array, "B H *C T V"], Float[Array, "B H *C T U"]]:
    """The output (Equation 9) and the weights over the U = N S keys and values of a head's area.

    C is absent, or the number of blocks of banded attention, which share `positions`. The division
    by the softmax's sum follows the product with the values, where a query has only V numbers.
    """
    area = valid_heads.shape[1]

    def of_area(x: Array) -> Array:
        return jnp.concatenate([x if query.ndim == 4 else x[:, :, None]] * area, axis=-1)

    # scores, with the bias and the mask
    scores = einsum("...tk,...sk->...ts", query, keys) * scale
    if bias is not None:
        scores = scores + of_area(bias.at(*positions))
    scores = jnp.where(mask_of_area(allowed, valid_heads), scores, MASKED)

    # numerators and denominator of the softmax; every area includes the query's own head, so that
    # `allowed` alone decides whether it has a key
    peak = jax.lax.stop_gradient(scores.max(-1, keepdims=True))
    exponentials = jnp.exp(scores - peak)
    total = exponentials.sum(-1, keepdims=True)
    has_key = allowed.any(-1, keepdims=True)
    if bias is not None and (factor := bias.factor(*positions)) is not None:
        exponentials = exponentials * of_area(factor)

    # weighted sums of the values, after dropout
    remaining = dropout(exponentials, dropout_rate, dropout_key).astype(values.dtype)
    summed = einsum("...ts,...sv->...tv", remaining, values)
    if bias is not None and not bias.relative:
        by_token = remaining.reshape(*remaining.shape[:-1], area, -1).sum(-2)
        if (bias_values := bias.values(by_token, *positions)) is not None:
            summed = summed + bias_values

    out = jnp.where(has_key, summed / total, 0).astype(query.dtype)
    return out, jnp.where(has_key, exponentials / total, 0)


def head_halo(
    x: Float[Array, "B S H K"], heads: Int[np.ndarray, "H N"]
) -> Float[Array, "B H+N-1 S K"]:
    """The heads, extended at both ends by those in the areas of the outer heads.

    Column n of the table `heads` is the slice n : n + H of the result. Runs of consecutive heads
    are sliced, which costs less than a gather, above all in the gradient.
    """
    sequence = np.concatenate([heads[:, 0], heads[-1, 1:]])
    runs = np.split(sequence, np.flatnonzero(np.diff(sequence) != 1) + 1)
    x = heads_first(x)
    return jnp.concatenate([x[:, run[0] : run[-1] + 1] for run in runs], axis=1)


def union_of_heads(
    slices: Sequence[Float[Array, "B _ *C _ K"]], heads: int
) -> Float[Array, "B {heads} *C U K"]:
    """Equations 7 and 8: the keys or values of each head's area, from all `slices` of the S tokens.

    The heads of an area are concatenated along the token axis, so that ordinary attention follows:
    with a separate axis for them the products take up to twice the time.
    """
    starts = range(slices[0].shape[1] - heads + 1)
    return jnp.concatenate([x[:, n : n + heads] for n in starts for x in slices], axis=-2)


def mask_of_area(
    allowed: Bool[Array, "b h *c #T S"], valid_heads: Bool[np.ndarray, "H N"]
) -> Bool[Array, "b _ *c T N*S"]:
    """The mask of the keys of `union_of_heads`; `valid_heads` is the mask of `masks.head_table`."""
    if valid_heads.all():
        return jnp.concatenate([allowed] * valid_heads.shape[1], axis=-1)
    columns = [column.reshape(1, -1, *(1,) * (allowed.ndim - 2)) for column in valid_heads.T]
    return jnp.concatenate([allowed & column for column in columns], axis=-1)


def heads_first(x: Float[Array, "B T H K"]) -> Float[Array, "B H T K"]:
    """Swaps the token and head axes, so that the products need no transposition."""
    return jnp.swapaxes(x, 1, 2)
