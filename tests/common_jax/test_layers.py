"""Layers that papers share: stacks, and attention that keeps no weights."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.layers import Stack

COUNT = 3


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

    def total(w, x, scale, own):
        out = stack.apply(
            {"params": {"layers": {"w": w}}}, x, spans, train=False, each=(scale, own)
        )
        return out.sum(), out

    def by_hand(w, x, scale, own):
        for n, shift in enumerate([0.25, -0.5, -0.5]):
            x = np.tanh(w[n][None, None] * x + shift + scale[n] * own[n][None, None])
        return x

    compiled = jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2, 3), has_aux=True))
    (_, out), gradients = compiled(w, x, scale, own)
    exact = [np.asarray(a, np.float64) for a in (w, x, scale, own)]
    np.testing.assert_allclose(out, by_hand(*exact), rtol=1e-5, atol=1e-6)
    for at, gradient in enumerate(gradients):  # along a direction, by central differences
        step = 1e-5 * random.standard_normal(exact[at].shape)
        ends = ([*exact[:at], exact[at] + s, *exact[at + 1 :]] for s in (step, -step))
        above, below = (by_hand(*end).sum() for end in ends)
        expected = (above - below) / 2
        moved = (np.asarray(gradient) * step).sum()
        np.testing.assert_allclose(moved, expected, rtol=1e-3, atol=1e-9)
