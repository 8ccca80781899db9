"""Layers that at least two of the papers use."""

import functools
from typing import Any, SupportsInt

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from common_jax.dropout import dropout
from common_jax.sharding import gathered, platform, spread

DROPOUT = "dropout"  # the name of the stream of random keys
EPSILON = 1e-6  # of layer normalisation
NEAR = 512  # positions whose encodings an export stores in a table


class Dropout(nn.Module):
    """Zeroes each element with probability `rate` in training and scales the others up."""

    rate: float

    @nn.compact
    def __call__(self, x: Float[Array, "..."], *, train: bool) -> Float[Array, "..."]:
        if not train or self.rate == 0:
            return x
        return dropout(x, self.rate, self.make_rng(DROPOUT))


class LayerNorm(nn.Module):
    """Layer normalisation (Ba et al. 2016), computed in float32 whatever the type of its input."""

    @nn.compact
    def __call__(self, x: Float[Array, "*b D"]) -> Float[Array, "*b D"]:
        scale = self.param("scale", nn.initializers.ones, x.shape[-1:])
        bias = self.param("bias", nn.initializers.zeros, x.shape[-1:])
        return layer_norm(spread(x), scale, bias)


@jax.custom_vjp
def layer_norm(
    x: Float[Array, "*b D"],
    scale: Float[Array | np.ndarray, "D"],
    bias: Float[Array | np.ndarray, "D"],
) -> Float[Array, "*b D"]:
    """(x - mean) / sqrt(variance + EPSILON) * scale + bias, over the last axis, in x's type.

    The backward pass stores x instead of float32 intermediates.
    """
    return _layer_norm_forward(x, scale, bias)[0]


def _layer_norm_forward(x, scale, bias):
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    variance = jnp.maximum(0, (wide * wide).mean(-1, keepdims=True) - mean * mean)
    inverse = jax.lax.rsqrt(variance + EPSILON)
    rows = (1,) * (x.ndim - 1)
    y = (wide - mean) * (inverse * scale.reshape(*rows, -1)) + bias.reshape(*rows, -1)
    return y.astype(x.dtype), (x, mean, inverse, scale)


def _layer_norm_backward(residuals, cotangent):
    x, mean, inverse, scale = residuals
    normalised = (x.astype(jnp.float32) - mean) * inverse
    cotangent = cotangent.astype(jnp.float32)

    # of scale and bias, over all positions
    rows = tuple(range(x.ndim - 1))
    d_scale = (cotangent * normalised).sum(rows)
    d_bias = cotangent.sum(rows)

    # of x: without its parts along the mean and along x
    scaled = cotangent * scale.reshape(*(1,) * len(rows), -1)
    along = (scaled * normalised).mean(-1, keepdims=True)
    d_x = inverse * (scaled - scaled.mean(-1, keepdims=True) - normalised * along)
    return d_x.astype(x.dtype), d_scale, d_bias


layer_norm.defvjp(_layer_norm_forward, _layer_norm_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(
    x: Float[Array, "*b D"], weights: Float[Array | np.ndarray, "D F"], axes: tuple[str, str]
) -> Float[Array, "*b F"]:
    """x W in the type of x. The gradient of W is summed in float32 over all positions and devices.

    Args:
      axes: names of the axes of W (`common_jax.sharding`).
    """
    weights = gathered(weights.astype(x.dtype), *axes)
    return jax.lax.dot_general(x, weights, (((x.ndim - 1,), (0,)), ((), ())))


def _product_forward(x, weights, axes):
    return product(x, weights, axes), (x, weights)


def _product_backward(axes, residuals, cotangent):
    x, weights = residuals
    last = x.ndim - 1

    # of x
    gathered_weights = gathered(weights.astype(x.dtype), *axes)
    d_x = jax.lax.dot_general(cotangent, gathered_weights, (((last,), (1,)), ((), ())))

    # of W, over all positions
    positions = tuple(range(last))
    if platform() == "cpu":  # lacks some products of bfloat16 with a float32 result
        x = x.astype(jnp.float32)
        cotangent = cotangent.astype(jnp.float32)
    d_weights = jax.lax.dot_general(
        x, cotangent, ((positions, positions), ((), ())), preferred_element_type=jnp.float32
    )
    return d_x, d_weights.astype(weights.dtype)


product.defvjp(_product_forward, _product_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def einsum(equation: str, a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    """`jnp.einsum` of two arrays of one dtype, summed in float32; the products of its backward pass
    have factors of that dtype too. A CPU, which lacks some products of bfloat16 with a float32
    result, converts the factors to float32."""
    narrow = functools.partial(jnp.einsum, equation, preferred_element_type=jnp.float32)
    if a.dtype == jnp.float32:
        return narrow(a, b)

    def wide(a: Array, b: Array) -> Array:
        return narrow(a.astype(jnp.float32), b.astype(jnp.float32))

    return jax.lax.platform_dependent(a, b, cpu=wide, default=narrow)


def _einsum_forward(equation, a, b):
    return einsum(equation, a, b), (a, b)


def _einsum_backward(equation, factors, cotangent):
    a, b = factors
    left, right, out = equation.replace("->", ",").split(",")
    cotangent = cotangent.astype(a.dtype)
    d_a = einsum(f"{out},{right}->{left}", cotangent, b)
    d_b = einsum(f"{out},{left}->{right}", cotangent, a)
    return d_a.astype(a.dtype), d_b.astype(b.dtype)


einsum.defvjp(_einsum_forward, _einsum_backward)


@jax.custom_vjp
def add_bias(x: Float[Array, "*b F"], bias: Float[Array | np.ndarray, "F"]) -> Float[Array, "*b F"]:
    """x + b in the type of x; the gradient of b is summed in float32."""
    return x + bias.astype(x.dtype).reshape(*(1,) * (x.ndim - 1), -1)


def _add_bias_forward(x, bias):
    return add_bias(x, bias), None


def _add_bias_backward(_, cotangent):
    total = cotangent.sum(tuple(range(cotangent.ndim - 1)), dtype=jnp.float32)
    return cotangent, total


add_bias.defvjp(_add_bias_forward, _add_bias_backward)


class Dense(nn.Module):
    """x W + b, Glorot-uniform (Glorot & Bengio 2010).

    Attributes:
      size: of the result.
      axes: names of the axes of W [in, out], which shard it and the result (`common_jax.sharding`).
      dtype: of the product; parameters are float32.
    """

    size: int
    axes: tuple[str, str]
    dtype: Any
    use_bias: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, "*b D"]) -> Float[Array, "*b {self.size}"]:
        named = nn.with_logical_partitioning
        glorot = named(nn.initializers.xavier_uniform(), self.axes)
        kernel = self.param("kernel", glorot, (x.shape[-1], self.size))
        y = spread(product(x.astype(self.dtype), kernel, self.axes), self.axes[1])
        if not self.use_bias:
            return y
        zeros = named(nn.initializers.zeros, self.axes[1:])
        return add_bias(y, self.param("bias", zeros, (self.size,)))


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, section 3.3).

    Attributes:
      size: of the hidden layer.
      dropout: rate on the hidden layer.
    """

    size: int
    dtype: Any
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: Float[Array, "*b D"], *, train: bool) -> Float[Array, "*b D"]:
        hidden = nn.relu(Dense(self.size, ("embed", "mlp"), self.dtype, name="in")(x))
        hidden = Dropout(self.dropout)(hidden, train=train)
        return Dense(x.shape[-1], ("mlp", "embed"), self.dtype, name="out")(hidden)


def sinusoids(length: SupportsInt, dim: int) -> Float[np.ndarray | Array, "T D"]:
    """Sinusoidal position encodings (Vaswani et al. 2017, section 3.5), sines first, then cosines.

    Computed by numpy; for the symbolic length of an export, by the exported program.
    """
    rates = 10_000.0 ** -(np.arange(dim // 2) / max(dim // 2 - 1, 1))
    if not isinstance(length, int):
        return _sinusoids_on_device(length, rates)
    angles = np.arange(length)[:, None] * rates[None]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


def _sinusoids_on_device(length: Any, rates: np.ndarray) -> Float[Array, "T D"]:
    """Positions below `NEAR` are read from an exact table. Angles of larger ones are too coarse in
    float32: they are computed in units of 2^-32 turns, in uint32, which wraps at a full turn."""
    positions = jnp.arange(length, dtype=jnp.uint32)[:, None]
    turns = np.round(rates / (2 * np.pi) * 2**32).astype(np.uint32)
    signed = jax.lax.bitcast_convert_type(positions * turns[None], jnp.int32)  # half a turn at most
    angles = signed.astype(jnp.float32) * np.float32(2 * np.pi / 2**32)
    far = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)
    near = jnp.asarray(sinusoids(NEAR, 2 * len(rates)))
    return jnp.where(positions < NEAR, near[jnp.minimum(positions[:, 0], NEAR - 1)], far)
