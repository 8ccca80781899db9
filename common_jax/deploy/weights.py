"""Weights that exports of earlier versions store in fewer bits than float32.

They are the matrices of products (`kernel`, `NAME_kernel`, `recurrent`) and the
tables of vectors (`NAME_embedding`) with at least `SMALL` numbers. Norms, biases and other arrays
are float32. `restored` converts all to float32, in which models compute.

- bfloat16: the nearest number, ties to even.
- int8: w = scale * q with whole numbers -127 <= q <= 127, the nearest to w / scale, ties to even;
  scale = max |w| / 127 over the weights of an output channel, 1 if these are 0. An output channel
  is a column of a kernel [..., inputs, outputs], for each layer and each position of a window, or a
  row of a table [rows, ..., dim], which as an output layer has a row for each output. The scales of
  `a/kernel` are float32 in `a/kernel.scale`, [..., 1, outputs]; those of a table [rows, ..., 1].
"""

import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from common_jax.deploy.format import Dtype
from common_jax.errors import UserError
from common_jax.io.parameters import named_parameters, nested_parameters

SMALL = 1024  # numbers; smaller arrays are not converted
SCALE = ".scale"  # added to a name
_KERNEL = re.compile(r"(.*_)?kernel|recurrent")
_TABLE = re.compile(r".*_embedding")


def stored_shapes(params: Mapping[str, Any], dtype: Dtype) -> dict[str, Any]:
    """The shapes and dtypes of nested float32 parameters as an export stores them in `dtype`."""
    arrays: dict[str, Any] = {}
    for name, array in named_parameters(params).items():
        axis = _input_axis(name)
        if dtype == "float32" or axis is None or len(array.shape) < 2 or array.size < SMALL:
            arrays[name] = array
            continue
        stored_type = jnp.bfloat16 if dtype == "bfloat16" else jnp.int8
        arrays[name] = jax.ShapeDtypeStruct(array.shape, stored_type)
        if dtype == "int8":
            channels = list(array.shape)
            channels[axis] = 1
            arrays[name + SCALE] = jax.ShapeDtypeStruct(tuple(channels), jnp.float32)
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


def require_scales(place: str, params: Mapping[str, Any]) -> None:
    """Raises UserError for the first scale, by name, that is not a finite positive number."""
    for name, array in named_parameters(params).items():
        if name.endswith(SCALE) and not np.all((array > 0) & np.isfinite(array)):
            raise UserError(f"{place}: {name}: a scale that is not positive and finite")


def _input_axis(name: str) -> int | None:
    """The axis of the inputs of an output channel; None for an array that stays float32."""
    last = name.rpartition("/")[2]
    return -2 if _KERNEL.fullmatch(last) else -1 if _TABLE.fullmatch(last) else None


def _scaled(array: Any, scale: Any) -> Any:
    wide = array.astype(np.float32, copy=False)
    return wide if scale is None else wide * scale
