"""Stacks of equal layers."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.stack import Stack
from tests import random_params
from tests.gradcheck import assert_slopes

COUNT = 3


class Layer(nn.Module):
    """tanh(w x + shift + scale own), with w and own of each layer."""

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
    stack = Stack(Layer, COUNT, params_name="equal", **options)
    w = random.standard_normal((COUNT, 5)).astype(np.float32)

    def total(inputs):
        w, x, scale, own = inputs
        out = stack.apply({"params": {"equal": {"w": w}}}, x, spans, train=False, each=(scale, own))
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


def test_initialisation_gives_each_layer_its_parameters_and_runs_none():
    traced = []

    class Counted(nn.Module):
        @nn.compact
        def __call__(self, x, *, train):
            traced.append(train)
            w = self.param("w", nn.initializers.normal(1.0), (x.shape[-1],))
            return x * w[None, None]

    x, key = jnp.ones((1, 1, 5)), jax.random.key(0)
    stack = Stack(Counted, COUNT)
    out, variables = stack.init_with_output(key, x, [(COUNT, ())], train=False)
    assert traced == [False]  # for the parameters of all layers
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    w = nn.unbox(variables)["params"]["layers"]["w"]
    assert w.shape == (COUNT, 5)
    assert len(np.unique(w)) == COUNT * 5
    out = stack.apply(variables, x, [(COUNT, ())], train=False)
    np.testing.assert_allclose(out[0, 0], np.prod(w, axis=0), rtol=1e-6)
