"""The function `attention`: validates a request, zeroes padding and selects an implementation."""

import dataclasses
from collections.abc import Mapping
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from common_jax.attention.banded import Banded, block_length
from common_jax.attention.bias import Bias
from common_jax.attention.chunked import Chunked
from common_jax.attention.dense import Dense
from common_jax.attention.request import Form, Request
from common_jax.masks import Mask, valid
from common_jax.sharding import platform

Implementation = Literal["auto", "dense", "banded", "chunked"]
FORMS: Mapping[str, Form] = {"dense": Dense(), "banded": Banded(), "chunked": Chunked()}
# "auto" is banded for sequences at least this many times as long as the keys of a block: at window
# 11 from about 90 tokens, and from about 700 on a TPU. On a CPU (`python -m launch.bench
# attention`) 1D-CSAN's banded form takes 0.76 of dense's time at 128 tokens and 0.46 at 256.
# Compiled for an H100 it moves 0.70 of dense's bytes at 128 tokens and 0.46 at 256; for a v5e, by
# the compiler's cycles, it takes 1.3 times as long at 512 and 0.7 at 1,024.
BANDED_FROM = 2.25
BANDED_FROM_ON_TPU = 17.0


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
        at these shapes that supports the request; see `Form.obstacles`. For symbolic lengths, as in
        an export, "auto" and "banded" are "dense".
      return_weights: whether to return also the float32 weights before dropout, heads of the area
        in the order of `masks.head_table`; dense only.

    Raises:
      ValueError: if the implementation does not support the request, or shapes do not fit.
    """
    _require_shapes(query, key, value)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    request = Request(
        query, key, value, mask, bias, scale, dropout_rate, dropout_key, return_weights
    )

    # the form
    symbolic = not all(isinstance(x.shape[1], int) for x in (query, key))
    if symbolic and implementation in ("auto", "banded"):
        implementation = "dense"  # an export has one form, for all lengths
    if implementation == "auto":
        banded = not FORMS["banded"].obstacles(request) and _banded_pays(query, mask)
        implementation = "banded" if banded else "dense"
    form = FORMS[implementation]
    if features := form.obstacles(request):
        raise ValueError(f"{implementation} attention does not support {' and '.join(features)}")

    # its result, from zeros at padding
    without_padding = dataclasses.replace(
        request,
        query=_zero_padding(query, mask.query_segments),
        key=_zero_padding(key, mask.key_segments),
        value=_zero_padding(value, mask.key_segments),
    )
    out, weights = form(without_padding)
    return (out, weights) if return_weights else out


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
