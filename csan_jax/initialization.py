"""Initial parameters as in the CSAN authors' released code.

Its default initialiser is uniform with the variance 2 / (fan-in + fan-out), as ours is for single
matrices. The differences are:

- queries, keys and values of self-attention are one matrix [D, 3 D], keys and values of the
  attention to the source one matrix [D, 2 D]: smaller by sqrt(2) and sqrt(3/2);
- biases, with fan-in and fan-out equal to their size n, are uniform within sqrt(3 / n) instead of
  0.
"""

import zlib

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jaxtyping import Array, Key

from common_jax.training.task import Params

_JOINT: dict[tuple[str, ...], int] = {
    **{("self_attention", name): 3 for name in ("query", "key", "value")},
    **{("cross_attention", name): 2 for name in ("key", "value")},
}


def as_released(params: Params, key: Key[Array, ""]) -> Params:
    """Rescales our initial matrices, and replaces the biases, as in the released code."""
    flat = traverse_util.flatten_dict(params)

    def changed(path: tuple[str, ...], leaf: Array) -> Array:
        joint = _JOINT.get(path[-3:-1], 1)

        # a matrix
        if path[-1] == "kernel":
            fan_in, fan_out = leaf.shape[-2:]
            return leaf * jnp.sqrt((fan_in + fan_out) / (fan_in + joint * fan_out))

        # a bias
        if path == ("source_bias",) or (path[-1] == "bias" and (*path[:-1], "kernel") in flat):
            limit = (3 / (joint * leaf.shape[-1])) ** 0.5
            param_key = jax.random.fold_in(key, zlib.crc32("/".join(path).encode()))
            return jax.random.uniform(param_key, leaf.shape, leaf.dtype, -limit, limit)
        return leaf

    boxed = {p: nn.meta.replace_boxed(leaf, changed(p, nn.unbox(leaf))) for p, leaf in flat.items()}
    return traverse_util.unflatten_dict(boxed)
