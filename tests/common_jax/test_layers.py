"""Layers that papers share: convolution and stacks."""

import flax.linen as nn
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.layers import NEAR, Convolution, Stack, sinusoids
from tests import numpy_reference, random_params
from tests.gradcheck import assert_slopes

COUNT = 3


@pytest.mark.parametrize("length", [1, 6])  # shorter and longer than the filters
def test_a_convolution_multiplies_each_window(length):
    random = np.random.default_rng(0)
    shape = 2, 2, length  # as of characters: [B, T, W]
    x, cotangent = (random.standard_normal((*shape, d)).astype(np.float32) for d in (3, 4))
    module = Convolution(4, 5, jnp.float32)
    params = random_params.parameters(module, x)
    assert params["filters"].shape == (5, 3, 4)

    def total(inputs):
        out = module.apply({"params": inputs[0]}, inputs[1])
        return jnp.vdot(out, cotangent), out

    def by_hand(inputs):
        params, x = inputs
        rows = [numpy_reference.convolution(row, params) for row in x.reshape(4, length, 3)]
        return np.array(rows).reshape(*shape, 4)

    inputs = params, x
    (_, out), gradients = jax.jit(jax.value_and_grad(total, has_aux=True))(inputs)
    np.testing.assert_allclose(out, by_hand(random_params.exact(inputs)), rtol=1e-5, atol=1e-5)
    assert_slopes(lambda inputs: np.vdot(by_hand(inputs), cotangent), inputs, gradients)


class Layer(nn.Module):
    """tanh(w x + shift + scale own), of which each layer has its own w and own."""

    @nn.compact
    def __call__(self, x, shift, scale, own, *, train):
        w = self.param("w", nn.initializers.normal(1.0), (x.shape[-1],))
        return jnp.tanh(w[None, None] * x + shift + scale * own[None, None])


@pytest.mark.parametrize("options", [{}, {"unroll": True}, {"remat": True}])
def test_each_layer_of_a_stack_gets_its_own_part_behind_what_its_span_gets(options):
    random = np.random.default_rng(0)
    x, own = (random.standard_normal(s).astype(np.float32) for s in ((2, 4, 5), (COUNT, 5)))
    scale = random.standard_normal(COUNT).astype(np.float32)
    spans = [(1, (jnp.float32(0.25),)), (2, (jnp.float32(-0.5),))]
    stack = Stack(Layer, COUNT, **options)
    w = random.standard_normal((COUNT, 5)).astype(np.float32)

    def total(inputs):
        w, x, scale, own = inputs
        out = stack.apply(
            {"params": {"layers": {"w": w}}}, x, spans, train=False, each=(scale, own)
        )
        return out.sum(), out

    def by_hand(inputs):
        w, x, scale, own = inputs
        for n, shift in enumerate([0.25, -0.5, -0.5]):
            x = np.tanh(w[n][None, None] * x + shift + scale[n] * own[n][None, None])
        return x

    inputs = w, x, scale, own
    (_, out), gradients = jax.jit(jax.value_and_grad(total, has_aux=True))(inputs)
    np.testing.assert_allclose(out, by_hand(random_params.exact(inputs)), rtol=1e-5, atol=1e-6)
    assert_slopes(lambda inputs: by_hand(inputs).sum(), inputs, gradients)


def test_encodings_of_a_symbolic_length_are_those_of_any():
    zeros = jax.ShapeDtypeStruct(jax.export.symbolic_shape("T"), np.float32)
    encode = jax.export.export(jax.jit(lambda x: sinusoids(x.shape[0], 6)))(zeros)
    for length in (1, NEAR, 40_000):
        positions = np.arange(length)[:, None]
        angles = positions / 10_000.0 ** (np.arange(3)[None] / 2)
        want = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        found = np.asarray(encode.call(np.zeros(length, np.float32)))
        np.testing.assert_allclose(found, want, atol=4e-5)
        np.testing.assert_allclose(found[:5_000], want[:5_000], atol=5e-6)
        np.testing.assert_array_equal(found[:NEAR], sinusoids(length, 6)[:NEAR])
