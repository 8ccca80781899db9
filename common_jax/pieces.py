"""Functions of long arrays, computed for a piece at a time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Shaped


def map_pieces(function: Callable[..., Any], arrays: Any, axis: int, size: int) -> Any:
    """`function(*arrays)`, which treats the elements along an axis independently, by a loop.

    Args:
      arrays: a sequence of trees of arrays, of one length along `axis`. They need not be a multiple
        of a piece: the last one is padded with zeros.
      axis: of the arrays and of the function's results.
      size: of a piece.
    """
    length = jax.tree.leaves(arrays)[0].shape[axis]
    pieces = jax.tree.map(lambda x: split(x, axis, size), arrays)
    results = jax.lax.map(lambda piece: function(*piece), pieces)
    return jax.tree.map(lambda x: join(x, axis, length), results)


def split(x: Shaped[Array, "*dims"], axis: int, size: int) -> Shaped[Array, "pieces *piece"]:
    """The pieces of an array, stacked along a new first axis; the last one is padded with zeros."""
    length = x.shape[axis]
    count = -(-length // size)
    ends = [(0, 0)] * x.ndim
    ends[axis] = (0, count * size - length)
    divided = (*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(jnp.pad(x, ends).reshape(divided), axis, 0)


def join(pieces: Shaped[Array, "pieces *piece"], axis: int, length: int) -> Shaped[Array, "*dims"]:
    """The array, `length` long, of which `split` made these pieces."""
    moved = jnp.moveaxis(pieces, 0, axis)
    shape = (*moved.shape[:axis], -1, *moved.shape[axis + 2 :])
    return jax.lax.slice_in_dim(moved.reshape(shape), 0, length, axis=axis)
