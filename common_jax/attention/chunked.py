"""Attention for a few sequences at a time, with a backward pass that recomputes the weights.

Only the output and the logarithm of each query's softmax sum are stored for the backward pass (Dao
et al. 2022, Algorithm 4; Rabe & Staats 2021): no [B, H, T, S] array outlives the call, and on a CPU
none is larger than `CHUNK` elements and those of one more sequence.
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from common_jax.attention.dense import heads_first
from common_jax.attention.request import Form, Request
from common_jax.layers import einsum
from common_jax.masks import MASKED, Mask
from common_jax.pieces import map_pieces

# Number of weights computed at once on a CPU (2 MiB), at least those of one sequence. At T = 400
# with 8 heads of 16, value and gradient take half the time of computing all weights, 164 MB, at
# once (`python -m launch.bench attention --lengths 400 --head_size 16 --batch 32`). Accelerators
# compute all at once, since chunks of this size would leave most of them idle.
CHUNK = 2**19


class Chunked(Form):
    """Masks without an area of heads; no array of all weights."""

    def obstacles(self, request: Request) -> list[str]:
        missing = {
            "masks with an area of heads": request.mask.heads != 1,
            "dropout": request.dropout_rate != 0,
            "return_weights": request.return_weights,
            "biases": request.bias is not None,
        }
        return [feature for feature, requested in missing.items() if requested]

    def __call__(self, request: Request) -> tuple[Float[Array, "B T H V"], None]:
        arrays = (request.query, request.key, request.value)
        return chunked_attention(*arrays, request.mask, request.scale), None


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def chunked_attention(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    value: Float[Array, "B S H V"],
    mask: Mask,
    scale: float,
) -> Float[Array, "B T H V"]:
    """Equation 2 of CSAN, for masks without head areas."""
    return _forward(query, key, value, mask, scale)[0]


def _forward(query: Array, key: Array, value: Array, mask: Mask, scale: float):
    def chunk(query, key, value, mask):
        query, key, value = map(heads_first, (query, key, value))
        scores, allowed = _scores(query, key, mask, scale)
        has_key = allowed.any(-1, keepdims=True)

        # softmax and output
        peak = scores.max(-1, keepdims=True)
        exponentials = jnp.exp(scores - peak)
        total = exponentials.sum(-1, keepdims=True)
        out = einsum("bhts,bhsv->bhtv", exponentials.astype(value.dtype), value) / total
        out = jnp.where(has_key, out, 0).astype(query.dtype)

        # so large that a query without a key has weights of zero in the backward pass
        log_total = jnp.where(has_key, peak + jnp.log(total), -MASKED)
        return heads_first(out), log_total

    out, log_total = _in_chunks(chunk, (query, key, value, mask))
    return out, (query, key, value, mask, out, log_total)


def _backward(scale: float, residuals, cotangent: Array):
    def chunk(query, key, value, mask, out, log_total, cotangent):
        query, key, value, out, cotangent = map(heads_first, (query, key, value, out, cotangent))

        # the weights again, and the gradient of the scores
        weights = jnp.exp(_scores(query, key, mask, scale)[0] - log_total)
        d_weights = einsum("bhtv,bhsv->bhts", cotangent, value)
        mean = einsum("bhtv,bhtv->bht", cotangent, out)[..., None]  # of `d_weights`, by weight
        d_scores = (weights * (d_weights - mean) * scale).astype(query.dtype)

        # those of query, key and value; in this order the larger factor is not transposed
        d_query = einsum("bhts,bhsk->bhtk", d_scores, key).astype(query.dtype)
        d_key = einsum("bhtk,bhts->bhks", query, d_scores)
        d_key = jnp.swapaxes(d_key, 2, 3).astype(key.dtype)
        d_value = einsum("bhtv,bhts->bhvs", cotangent, weights.astype(value.dtype))
        d_value = jnp.swapaxes(d_value, 2, 3).astype(value.dtype)
        return heads_first(d_query), heads_first(d_key), heads_first(d_value)

    return *_in_chunks(chunk, (*residuals, cotangent)), None


chunked_attention.defvjp(_forward, _backward)


def _scores(
    query: Float[Array, "B H T K"], key: Float[Array, "B H S K"], mask: Mask, scale: float
) -> tuple[Float[Array, "B H T S"], Bool[Array, "b h T S"]]:
    """The scaled scores, `MASKED` where they are not allowed, and the mask."""
    allowed = mask.allowed(query.shape[2], key.shape[2], query.shape[1])
    scores = einsum("bhtk,bhsk->bhts", query, key) * scale
    return jnp.where(allowed, scores, MASKED), allowed


def _in_chunks(function, arrays):
    """`function` of the arrays, all [B, ...]; on a CPU a few rows at a time."""
    # ties the mask to the queries, so that XLA does not move it out of a scan over layers: reading
    # an array [B, H, T, S] takes longer than computing it
    query, key, value, mask, *extra = arrays
    query, mask = jax.lax.optimization_barrier((query, mask))
    arrays = (query, key, value, mask, *extra)

    # all at once if the weights are few
    batch, length, heads, _ = query.shape
    weights = batch * heads * length * key.shape[1]
    symbolic = not isinstance(weights, int)  # in an export
    if symbolic or weights <= CHUNK or batch == 1:
        return function(*arrays)

    # else in chunks of equally many rows
    chunks = min(batch, -(-weights // CHUNK))
    rows = -(-batch // chunks)

    def in_turn(*arrays):
        return map_pieces(function, arrays, 0, rows)

    return jax.lax.platform_dependent(*arrays, cpu=in_turn, default=function)
