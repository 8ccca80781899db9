"""Gradients against slopes."""

import jax
import numpy as np


def assert_slopes(total, inputs, gradients, step=1e-5):
    """Gradients in float32 agree with the slopes of `total`, a function of the inputs in float64.

    Each array of the tree of inputs is moved along a random direction, and the slope taken by
    central differences.
    """
    places, form = jax.tree.flatten_with_path(inputs)
    exact = [np.asarray(array, np.float64) for _, array in places]
    random = np.random.default_rng(0)
    for at, gradient in enumerate(form.flatten_up_to(gradients)):
        name, gradient = jax.tree_util.keystr(places[at][0]), np.asarray(gradient, np.float64)
        assert gradient.shape == exact[at].shape and gradient.any(), name
        direction = random.standard_normal(gradient.shape)
        moved = (
            form.unflatten([*exact[:at], exact[at] + way * direction, *exact[at + 1 :]])
            for way in (step, -step)
        )
        above, below = map(total, moved)
        slope = (above - below) / (2 * step)
        analytic = (gradient * direction).sum()
        np.testing.assert_allclose(analytic, slope, rtol=1e-4, atol=1e-4, err_msg=name)
