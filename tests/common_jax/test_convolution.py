"""Convolutions against loops, and their gradients against slopes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.convolution import Convolution, SeparableConvolution, depthwise
from tests import numpy_reference, random_params
from tests.gradcheck import assert_slopes


@pytest.mark.parametrize("length", [1, 6])  # shorter and longer than the filters
@pytest.mark.parametrize(
    "kind,reference,rows,filters",
    [
        (Convolution, numpy_reference.convolution, (2, 2), (5, 3, 4)),  # of characters: [B, T, W]
        (SeparableConvolution, numpy_reference.separable_convolution, (4,), (5, 3)),
    ],
)
def test_a_convolution_multiplies_each_window(kind, reference, rows, filters, length):
    random, shape = np.random.default_rng(0), (*rows, length)
    x, cotangent = (random.standard_normal((*shape, d)).astype(np.float32) for d in (3, 4))
    module = kind(4, 5, jnp.float32)
    params = random_params.parameters(module, x)
    assert filters in [array.shape for array in jax.tree.leaves(params)]

    def total(inputs):
        out = module.apply({"params": inputs[0]}, inputs[1])
        return jnp.vdot(out, cotangent), out

    def by_hand(inputs):
        params, x = inputs
        alone = [reference(row, params) for row in x.reshape(4, length, 3)]
        return np.array(alone).reshape(*shape, 4)

    inputs = params, x
    (_, out), gradients = jax.jit(jax.value_and_grad(total, has_aux=True))(inputs)
    np.testing.assert_allclose(out, by_hand(random_params.exact(inputs)), rtol=1e-5, atol=1e-5)
    assert_slopes(lambda inputs: np.vdot(by_hand(inputs), cotangent), inputs, gradients)


@pytest.mark.parametrize("ids", [None, [1], [1] * 6, [1, 1, 2, 2, 2, 0], [True] * 4 + [False]])
def test_gradients_of_depthwise_filters_are_their_slopes(ids):
    """Rows shorter and longer than the filters, alone, packed and padded."""
    length = 6 if ids is None else len(ids)
    segments = None if ids is None else jnp.array([ids, ids])
    random = np.random.default_rng(0)
    shapes = (2, length, 3), (5, 3), (2, length, 3)
    x, filters, cotangent = (random.standard_normal(s).astype(np.float32) for s in shapes)

    def total(inputs):
        x, filters = inputs
        own = [1] * length if ids is None else ids
        out = np.zeros_like(x)
        for i, j in itertools.product(range(length), repeat=2):
            if abs(i - j) <= 2 and own[i] == own[j] != 0:
                out[:, i] += x[:, j] * filters[j - i + 2]
        return (out * cotangent).sum()

    convolve = lambda x, filters: depthwise(x, filters, segments)
    gradients = jax.vjp(convolve, *map(jnp.asarray, (x, filters)))[1](jnp.asarray(cotangent))
    assert_slopes(total, (x, filters), gradients)
