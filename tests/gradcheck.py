"""Layers against references in float64, and gradients against central differences."""

import jax
import jax.numpy as jnp
import numpy as np


def assert_slopes(total, inputs, gradients, step=1e-5, rtol=1e-4, atol=1e-4):
    """Compares float32 gradients with slopes of `total`, a function of the inputs in float64.

    The slope of each array is the central difference along a random direction.
    """
    leaves, form = jax.tree.flatten_with_path(inputs)
    exact = [np.asarray(array, np.float64) for _, array in leaves]
    random = np.random.default_rng(0)
    for at, gradient in enumerate(form.flatten_up_to(gradients)):
        name, gradient = jax.tree_util.keystr(leaves[at][0]), np.asarray(gradient, np.float64)
        assert gradient.shape == exact[at].shape and gradient.any(), name
        direction = random.standard_normal(gradient.shape)
        moved = (
            form.unflatten([*exact[:at], exact[at] + sign * direction, *exact[at + 1 :]])
            for sign in (step, -step)
        )
        above, below = map(total, moved)
        slope = (above - below) / (2 * step)
        analytic = (gradient * direction).sum()
        np.testing.assert_allclose(analytic, slope, rtol=rtol, atol=atol, err_msg=name)


def assert_equals(layer, reference, *inputs, rtol=1e-5, atol=1e-5):
    """Compares a layer with a reference in float64: values, and slopes of their weighted sum."""
    random = np.random.default_rng(9)
    weights = random.standard_normal(jax.eval_shape(layer, *inputs).shape)

    def total(inputs):
        out = layer(*inputs)
        return jnp.vdot(out, weights.astype(np.float32)), out

    (_, out), gradients = jax.jit(jax.value_and_grad(total, has_aux=True))(inputs)
    exact = jax.tree.map(lambda a: np.asarray(a, np.float64), inputs)
    np.testing.assert_allclose(out, reference(*exact), rtol=rtol, atol=atol)
    assert_slopes(lambda inputs: np.vdot(reference(*inputs), weights), inputs, gradients)
