"""Weights of an export stored in fewer bits than float32.

`stored` converts weights: the matrices of products (`kernel`, `NAME_kernel`, `recurrent`) and the
tables of vectors (`NAME_embedding`) with at least `SMALL` numbers. Norms, biases and other arrays
stay float32. `restored` converts all to float32, in which models compute.

- bfloat16: the nearest number, ties to even.
- int8: w = scale * q with whole numbers -127 <= q <= 127, the nearest to w / scale, ties to even;
  scale = max |w| / 127 over the weights of an output channel, 1 if these are 0. An output channel
  is a column of a kernel [..., inputs, outputs], for each layer and each position of a window, or a
  row of a table [rows, ..., dim], which as an output layer has a row for each output. The scales of
  `a/kernel` are float32 in `a/kernel.scale`, [..., 1, outputs]; those of a table [rows, ..., 1].
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8

from common_jax.errors import UserError
from common_jax.export.format import Dtype
from common_jax.io.parameters import named_parameters, nested_parameters

SMALL = 1024  # numbers; smaller arrays are not converted
SCALE = ".scale"  # added to a name
_LARGEST = 127
_KERNEL, _TABLE = re.compile(r"(.*_)?kernel|recurrent"), re.compile(r".*_embedding")


def stored(params: Mapping[str, Any], dtype: Dtype) -> dict[str, Any]:
    """Nested float32 parameters with their weights in `dtype`, and the scales of int8 ones."""
    arrays: dict[str, Any] = {}
    for name, array in named_parameters(params).items():
        axis = _input_axis(name)
        if dtype == "float32" or axis is None or array.ndim < 2 or array.size < SMALL:
            arrays[name] = array
        elif dtype == "bfloat16":
            arrays[name] = jnp.asarray(array).astype(jnp.bfloat16)
        else:
            arrays[name], arrays[name + SCALE] = _quantized(jnp.asarray(array), axis)
    return nested_parameters(arrays)


def restored(params: Mapping[str, Any]) -> dict[str, Any]:
    """The nested float32 parameters of `stored` ones."""
    arrays = named_parameters(params)
    return nested_parameters(
        {
            name: _scaled(array, arrays.get(name + SCALE))
            for name, array in arrays.items()
            if not name.endswith(SCALE)
        }
    )


def restoring(serve: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`serve(params, arrays)` for `stored` parameters instead of float32 ones."""
    return lambda weights, arrays: serve(restored(weights), arrays)


def require_scales(place: str, params: Mapping[str, Any]) -> None:
    """Raises UserError for the first scale, by name, that is not a finite positive number."""
    for name, array in named_parameters(params).items():
        if name.endswith(SCALE) and not np.all((array > 0) & np.isfinite(array)):
            raise UserError(f"{place}: {name}: a scale that is not positive and finite")


def _input_axis(name: str) -> int | None:
    """The axis of the inputs of an output channel; None for an array that stays float32."""
    last = name.rpartition("/")[2]
    return -2 if _KERNEL.fullmatch(last) else -1 if _TABLE.fullmatch(last) else None


def _quantized(
    weights: Float[Array, "*shape"], axis: int
) -> tuple[Int8[Array, "*shape"], Float[Array, "*channels"]]:
    scale = jnp.max(jnp.abs(weights), axis, keepdims=True) / _LARGEST
    scale = jnp.where(scale > 0, scale, 1.0).astype(jnp.float32)
    return jnp.round(weights / scale).astype(jnp.int8), scale


def _scaled(array: Any, scale: Any) -> Any:
    wide = array.astype(np.float32, copy=False)
    return wide if scale is None else wide * scale
