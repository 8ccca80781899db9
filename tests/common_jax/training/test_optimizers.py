"""Optimizers against their papers' updates in NumPy, and the limit on the last layer's norm."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.config import OptimizerConfig
from common_jax.errors import UserError
from common_jax.training.optimizer import limit_output_norm, make_optimizer

EPS = 1e-6
GRADIENTS = np.random.default_rng(0).normal(size=(5, 3))


def adam(gradients, b1=0.9, b2=0.99):
    mean = square = np.zeros(3)
    for step, g in enumerate(gradients, start=1):
        mean, square = b1 * mean + (1 - b1) * g, b2 * square + (1 - b2) * g * g
        yield mean / (1 - b1**step) / (np.sqrt(square / (1 - b2**step)) + EPS)


def adamax(gradients, b1=0.9, b2=0.99):
    """Kingma & Ba 2015, algorithm 2."""
    mean = largest = np.zeros(3)
    for step, g in enumerate(gradients, start=1):
        mean, largest = b1 * mean + (1 - b1) * g, np.maximum(b2 * largest, np.abs(g) + EPS)
        yield mean / (1 - b1**step) / largest


def adadelta(gradients, b1=0.9, b2=0.99):
    """Zeiler 2012, algorithm 1."""
    square = moved = np.zeros(3)
    for g in gradients:
        square = b2 * square + (1 - b2) * g * g
        update = np.sqrt(moved + EPS) / np.sqrt(square + EPS) * g
        moved = b2 * moved + (1 - b2) * update * update
        yield update


def adagrad(gradients, b1=0.9, b2=0.99, initial=0.3):
    total = np.full(3, initial)
    for g in gradients:
        total = total + g * g
        yield g / (np.sqrt(total) + EPS)


@pytest.mark.parametrize("formula", [adam, adamax, adadelta, adagrad], ids=lambda f: f.__name__)
def test_updates(formula):
    config = OptimizerConfig(
        name=formula.__name__, b1=0.9, b2=0.99, eps=EPS, initial_sum=0.3, clip_norm=0.0
    )
    optimizer = make_optimizer(config)
    params = {"w": jnp.zeros(3)}
    state = optimizer.init(params)
    for gradient, expected in zip(GRADIENTS, formula(GRADIENTS), strict=True):
        with jax.numpy_dtype_promotion("standard"):  # optax is not clean under "strict"
            gradients = {"w": jnp.asarray(gradient, jnp.float32)}
            updates, state = optimizer.update(gradients, state, params)
        np.testing.assert_allclose(updates["w"], expected, rtol=2e-4)


def test_fixed_parameters_have_no_l2():
    config = OptimizerConfig(name="adam", l2=0.1, clip_norm=0.0)
    params = {"fixed": jnp.ones(2), "layer": {"kernel": jnp.ones(2)}}
    optimizer = make_optimizer(config, ["fixed", "absent"])
    none = jax.tree.map(jnp.zeros_like, params)
    with jax.numpy_dtype_promotion("standard"):  # optax is not clean under "strict"
        updates, _ = optimizer.update(none, optimizer.init(params), params)
    np.testing.assert_array_equal(updates["fixed"], 0.0)
    assert (updates["layer"]["kernel"] > 0).all()


def test_the_last_layers_norm():
    """Limits each output's weights; other layers and smaller norms are unchanged."""
    kernel = jnp.float32([[3.0, 0.3], [4.0, 0.4]])
    params = {"hidden": {"kernel": kernel}, "output": {"kernel": kernel, "bias": kernel[0]}}
    limited = limit_output_norm(params, 2.5)
    np.testing.assert_allclose(limited["output"]["kernel"], [[1.5, 0.3], [2.0, 0.4]], rtol=1e-6)
    np.testing.assert_array_equal(limited["output"]["bias"], kernel[0])
    np.testing.assert_array_equal(limited["hidden"]["kernel"], kernel)
    assert limit_output_norm(params, 0.0) is params
    with pytest.raises(UserError, match=r"output_norm=2\.5: the model has no layer of outputs"):
        limit_output_norm({"output": {"bias": kernel[0]}}, 2.5)
