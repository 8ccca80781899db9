"""Convolutions over positions, ordinary and depthwise separable."""

from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Shaped

from common_jax.layers import Dense, add_bias, product
from common_jax.masks import valid
from common_jax.sharding import spread

Segments = Bool[Array, "*b T"] | Int[Array, "*b T"]  # as in `Mask`


class Convolution(nn.Module):
    """The ordinary convolution, with bias, over the second-to-last axis. Positions beyond the ends,
    in other `segments` and at padding are read as zeros.

    Computed as a sum over `width` shifted inputs, since XLA's convolutions of many short inputs are
    several times slower on a CPU.

    Attributes:
      size: number of filters.
      width: number of taps of a filter.
      dtype: of the computation; parameters are float32.
    """

    size: int
    width: int
    dtype: Any

    @nn.compact
    def __call__(
        self, x: Float[Array, "*b T D"], segments: Segments | None = None
    ) -> Float[Array, "*b T {self.size}"]:
        kernel, bias = self.parameters(x.shape[-1])
        inputs = shifted(x.astype(self.dtype), self.width, segments)
        y = sum(product(x, kernel[tap], ("embed", "mlp")) for tap, x in enumerate(inputs))
        return add_bias(spread(y, "mlp"), bias)

    def parameters(
        self, dim: int
    ) -> tuple[Float[Array | np.ndarray, "W {dim} F"], Float[Array | np.ndarray, "F"]]:
        """Kernel and bias."""
        named = nn.with_logical_partitioning
        glorot = named(nn.initializers.xavier_uniform(), (None, "embed", "mlp"))
        zeros = named(nn.initializers.zeros, ("mlp",))
        kernel = self.param("kernel", glorot, (self.width, dim, self.size))
        return kernel, self.param("bias", zeros, (self.size,))


class TableConvolution(Convolution):
    """`Convolution` of the rows `ids` of a table, whose row 0 is read as zeros.

    The table, not its gathered rows, is multiplied by the kernel: fewer operations if `ids` has far
    more elements than the table has rows, but `width` gathers, which are slow on accelerators.
    """

    @nn.compact
    def __call__(
        self, table: Float[Array, "R D"], ids: Int[Array, "*b T"]
    ) -> Float[Array, "*b T {self.size}"]:
        kernel, bias = self.parameters(table.shape[-1])
        table = table.astype(self.dtype).at[0].set(0)
        taps = [product(table, kernel[tap], ("embed", "mlp")) for tap in range(self.width)]
        shifts = shifted(ids[..., None], self.width)
        y = sum(jnp.take(tap, rows[..., 0], axis=0) for tap, rows in zip(taps, shifts, strict=True))
        return add_bias(spread(y, "mlp"), bias)


def shifted(
    x: Shaped[Array, "*b T D"], width: int, segments: Segments | None = None
) -> list[Shaped[Array, "*b T D"]]:
    """x shifted for each tap of a filter; zeros beyond the ends, in other segments than the
    position's, and at padding."""
    if segments is None:
        return _shifted(x, width)
    ids = segments[..., None]
    return [
        jnp.where((shifted_ids == ids) & valid(ids), shifted_x, 0)
        for shifted_x, shifted_ids in zip(_shifted(x, width), _shifted(ids, width), strict=True)
    ]


def _shifted(x: Array, width: int) -> list[Array]:
    """`shifted` in rows of one segment."""
    half = width // 2
    ends = [*[(0, 0)] * (x.ndim - 2), (half, half), (0, 0)]
    length = x.shape[-2]
    return [
        jax.lax.slice_in_dim(jnp.pad(x, ends), tap, tap + length, axis=-2) for tap in range(width)
    ]


class SeparableConvolution(nn.Module):
    """The separable convolution: depthwise, then pointwise (Chollet 2016). Positions beyond the
    ends, in other `segments` and at padding are read as zeros."""

    size: int
    width: int
    dtype: Any

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], segments: Segments | None = None
    ) -> Float[Array, "B T {self.size}"]:
        uniform = nn.initializers.variance_scaling(1.0, "fan_in", "uniform", 0, 1)
        uniform = nn.with_logical_partitioning(uniform, (None, "embed"))
        kernel = self.param("depthwise_kernel", uniform, (self.width, x.shape[-1]))
        filtered = depthwise(spread(x).astype(self.dtype), kernel, segments)
        return Dense(self.size, ("embed", "mlp"), self.dtype, name="pointwise")(filtered)


def convolution_class(kind: Literal["ordinary", "separable"]) -> Any:
    """`Convolution` or `SeparableConvolution`."""
    return Convolution if kind == "ordinary" else SeparableConvolution


@jax.custom_vjp
def depthwise(
    x: Float[Array, "B T D"], filters: Float[Array, "W D"], segments: Segments | None
) -> Float[Array, "B T D"]:
    """Depthwise convolution: one filter per channel, in x's dtype, with zeros as in `shifted`.

    The backward pass stores x instead of its W shifted copies.
    """
    taps = filters.astype(x.dtype)
    inputs = shifted(x, len(taps), segments)
    return sum(x * taps[tap, None, None] for tap, x in enumerate(inputs))


def _depthwise_forward(x, filters, segments):
    return depthwise(x, filters, segments), (x, filters, segments)


def _depthwise_backward(residuals, cotangent):
    x, filters, segments = residuals
    inputs = shifted(x, len(filters), segments)
    d_filters = [jnp.sum(x * cotangent, axis=(0, 1), dtype=jnp.float32) for x in inputs]
    d_x = depthwise(cotangent, filters[::-1], segments)
    return d_x, jnp.stack(d_filters).astype(filters.dtype), None


depthwise.defvjp(_depthwise_forward, _depthwise_backward)
