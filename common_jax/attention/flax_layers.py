"""`attention` with the signature of the `attention_fn` of Flax's attention layers."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from common_jax.attention.api import attention
from common_jax.masks import Mask, causal


def attention_fn(
    query: Float[Array, "B T H K"],
    key: Float[Array, "B S H K"],
    value: Float[Array, "B S H V"],
    *,
    mask: Any = None,
    dropout_rng: Key[Array, ""] | None = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Any = None,
    is_causal: bool = False,
    broadcast_dropout: bool = True,
) -> Float[Array, "B T H V"]:
    """`attention` for the argument `attention_fn` of `flax.linen.MultiHeadDotProductAttention` and
    `flax.nnx.MultiHeadAttention`, whose `mask` is then a `Mask`.

    Args:
      query, key, value: the layer's projections.
      mask: the layer's argument, a `Mask`; None restricts nothing.
      dropout_rng, dropout_rate: of the weights, unless `deterministic`.
      dtype: of the projections and the output; None is the type to which JAX promotes them.
      is_causal: adds `causal()` to the mask (NNX).
      broadcast_dropout: has no effect: each weight is dropped independently, where Flax's own
        function by default drops the same weights in all rows and heads.

    Raises:
      ValueError: for a mask that is an array, as layers with `decode=True` pass; for
        `sow_weights=True` (`module`) and a `precision`, which have no counterpart here.
    """
    if not isinstance(mask, Mask | None):
        raise ValueError(
            f"the mask is of type {type(mask).__name__}, not a common_jax.masks.Mask; "
            "a layer with decode=True makes an array and needs Flax's own function"
        )
    if module is not None or precision is not None:
        raise ValueError("attention_fn supports neither sow_weights=True nor a precision")

    # Flax's arguments as ours
    mask = Mask() if mask is None else mask
    dtype = jnp.result_type(query, key, value) if dtype is None else dtype
    query, key, value = (x.astype(dtype) for x in (query, key, value))
    return attention(
        query,
        key,
        value,
        mask & causal() if is_causal else mask,
        dropout_rate=0.0 if deterministic else dropout_rate,
        dropout_key=dropout_rng,
    )
