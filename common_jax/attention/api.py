"""The function `attention`: validates a request, zeroes padding and selects an implementation."""

from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from common_jax.attention.banded import banded_attention, block_length
from common_jax.attention.bias import Bias
from common_jax.attention.chunked import chunked_attention
from common_jax.attention.dense import dense_attention
from common_jax.masks import Mask, valid
from common_jax.sharding import platform

Implementation = Literal["auto", "dense", "banded", "chunked"]
# "auto" is banded for sequences at least this many times as long as the keys of a block: at window
# 11 from about 90 tokens, and from about 700 on a TPU. On a CPU (`python -m launch.bench
# attention`) 1D-CSAN's banded form takes 0.76 of dense's time at 128 tokens and 0.46 at 256.
# Compiled for an H100 it moves 0.70 of dense's bytes at 128 tokens and 0.46 at 256; for a v5e, by
# the compiler's cycles, it takes 1.3 times as long at 512 and 0.7 at 1,024.
BANDED_FROM = 2.25
BANDED_FROM_ON_TPU = 17.0

# What each implementation does not support; see `obstacles`.
UNSUPPORTED = {
    "dense": (),
    "banded": (
        *("masks without a token window", "unequal numbers of queries and keys"),
        *("return_weights", "biases that are not relative"),
    ),
    "chunked": ("masks with an area of heads", "dropout", "return_weights", "biases"),
}


def attention(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    value: Float[Array, "B S H V"],
    mask: Mask = Mask(),  # noqa: B008 (frozen)
    bias: Bias | None = None,
    *,
    scale: float | None = None,
    dropout_rate: float = 0.0,
    dropout_key: Key[Array, ""] | None = None,
    implementation: Implementation = "auto",
    return_weights: bool = False,
) -> Float[Array, "B T H V"] | tuple[Float[Array, "B T H V"], Float[Array, "B H T N S"]]:
    """Scaled dot-product attention over the tokens and heads that `mask` allows.

    softmax(scale * q . k + bias) over all allowed keys of the head's area at once (CSAN Eq. 7-9),
    in float32; the output has the query's dtype. A query with no allowed key yields zeros, in
    value and gradient. Padding, NaN included, does not affect valid positions, and its gradient is
    zero.

    Args:
      query, key, value: of one dtype; T and S may differ if the mask has no token window.
      bias: added to the scaled scores; None is 0.
      scale: of the logits; K**-0.5 if None.
      dropout_rate: of the weights; needs `dropout_key` if above 0.
      implementation: "dense" (any mask and bias), "banded" (self-attention in a token window),
        "chunked" (stores no weights for the backward pass), or "auto": the faster of the first two
        at these shapes that supports the request; see `UNSUPPORTED`. For symbolic lengths, as in an
        export, "auto" and "banded" are "dense".
      return_weights: whether to return also the float32 weights before dropout, heads of the area
        in the order of `masks.head_table`; dense only.

    Raises:
      ValueError: if the implementation does not support the request, or shapes do not fit.
    """
    _require_shapes(query, key, value)
    symbolic = not all(isinstance(x.shape[1], int) for x in (query, key))
    if symbolic and implementation in ("auto", "banded"):
        implementation = "dense"  # an export has one form, for all lengths
    reasons = obstacles(query, key, mask, bias, bool(dropout_rate), return_weights)
    if implementation == "auto":
        banded = not reasons["banded"] and _banded_pays(query, mask)
        implementation = "banded" if banded else "dense"
    if features := reasons[implementation]:
        raise ValueError(f"{implementation} attention does not support {' and '.join(features)}")
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    options: Any = {"scale": scale, "dropout_rate": dropout_rate, "dropout_key": dropout_key}
    query = _zero_padding(query, mask.query_segments)
    key = _zero_padding(key, mask.key_segments)
    value = _zero_padding(value, mask.key_segments)
    if implementation == "chunked":
        return chunked_attention(query, key, value, mask, scale)
    if implementation == "banded":
        return banded_attention(query, key, value, mask, bias, **options)
    out, weights = dense_attention(query, key, value, mask, bias, **options)
    return (out, weights) if return_weights else out


def obstacles(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    mask: Mask,
    bias: Bias | None,
    dropout: bool,
    return_weights: bool,
) -> dict[str, list[str]]:
    """The features of a request that each implementation does not support."""
    requested = {
        "masks without a token window": mask.window is None,
        "masks with an area of heads": mask.heads != 1,
        "unequal numbers of queries and keys": query.shape[1] != key.shape[1],
        "dropout": dropout,
        "return_weights": return_weights,
        "biases": bias is not None,
        "biases that are not relative": bias is not None and not bias.relative,
    }
    return {name: [f for f in features if requested[f]] for name, features in UNSUPPORTED.items()}


def _require_shapes(query: Array, key: Array, value: Array) -> None:
    shapes = query.shape, key.shape, value.shape
    if any(len(shape) != 4 for shape in shapes):
        raise ValueError(f"query, key and value are [batch, tokens, heads, size], not {shapes}")
    if len({shape[2] for shape in shapes}) > 1 or query.shape[3] != key.shape[3]:
        raise ValueError(f"query, key and value have different heads or sizes: {shapes}")


def _banded_pays(query: Array, mask: Mask) -> bool:
    length = query.shape[1]
    assert mask.window is not None
    halo = 2 * min(mask.window // 2, length - 1)
    ratio = BANDED_FROM_ON_TPU if platform() == "tpu" else BANDED_FROM
    return length >= ratio * (block_length(length, mask.window) + halo)


def _zero_padding(
    x: Float[Array, "B S H K"], segments: Bool[Array, "B S"] | Int[Array, "B S"] | None
) -> Float[Array, "B S H K"]:
    """x with zeros at padding; by `where`, since zero times NaN is NaN in value and gradient."""
    return x if segments is None else jnp.where(valid(segments)[..., None, None], x, 0)
