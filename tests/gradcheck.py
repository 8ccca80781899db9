"""Gradient check by central differences."""

import jax
import numpy as np


def assert_slopes(total, inputs, gradients, step=1e-5):
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
        np.testing.assert_allclose(analytic, slope, rtol=1e-4, atol=1e-4, err_msg=name)
