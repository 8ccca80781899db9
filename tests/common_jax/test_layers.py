"""Layers that papers share: stacks, and attention that keeps no weights."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax import masks
from common_jax.layers import MultiHeadAttention, Stack

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


def test_attention_that_recomputes_keeps_no_weights_and_changes_nothing():
    random = np.random.default_rng(0)
    batch, heads, length, dim = 2, 3, 13, 12
    x = random.standard_normal((batch, length, dim)).astype(np.float32)
    mask = masks.padding(np.arange(length) < np.array([[13], [8]]))
    params = nn.unbox(
        jax.jit(
            lambda key: MultiHeadAttention(dim, heads).init(key, x, x, mask, train=False)["params"]
        )(jax.random.key(0))
    )
    weights, kept, results = batch * heads * length * length, [], []
    for recompute in (False, True):
        module = MultiHeadAttention(dim, heads, dropout=0.2, recompute=recompute)
        apply = lambda p, x, module=module: module.apply(
            {"params": p}, x, x, mask, train=True, rngs={"dropout": jax.random.key(1)}
        )
        backward = jax.eval_shape(lambda p, x, f=apply: jax.vjp(f, p, x)[1], params, x)
        kept.append(max(leaf.size for leaf in jax.tree.leaves(backward)))
        loss = lambda p, x, f=apply: (f(p, x) ** 2).sum()
        results.append(jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(params, x))
    assert kept[1] < weights <= kept[0]
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    jax.tree.map(close, *results)
