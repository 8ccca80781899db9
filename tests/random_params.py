"""Random arrays, and random parameters from their shapes alone, without compilation."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np


def shapes(module: nn.Module, *inputs, **options) -> dict:
    """The shapes of a module's parameters."""
    arrays = jax.tree.map(jnp.asarray, inputs)
    init = lambda key: nn.unbox(module.init(key, *arrays, **options))
    return jax.eval_shape(init, jax.random.key(0)).get("params", {})


def parameters(module: nn.Module, *inputs, seed=0, **options) -> dict:
    """Random parameters, also of biases and scales, whose initial 0 and 1 would hide errors."""
    random = np.random.default_rng(seed)
    draw = lambda s: random.normal(0, 0.4, s.shape).astype(np.float32)
    return jax.tree.map(draw, shapes(module, *inputs, **options))


def normal(*shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def exact(params: dict) -> dict:
    """The parameters in float64, for the reference."""
    return jax.tree.map(lambda a: np.asarray(a, np.float64), params)
