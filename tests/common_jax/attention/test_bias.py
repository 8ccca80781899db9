"""Biases under every implementation, by what each declares to serve, against the oracle."""

import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.attention.api import UNSUPPORTED
from common_jax.masks import Mask
from tests.common_jax.attention import numpy_reference
from tests.common_jax.attention.cases import (
    BIASED,
    Toeplitz,
    attention,
    check_against_oracle,
    table,
    tensors,
    value_and_gradients,
    window,
)


@pytest.mark.parametrize("implementation", UNSUPPORTED)
@pytest.mark.parametrize("case", BIASED)
def test_a_bias_equals_the_oracle_or_is_rejected(case, implementation):
    shape, mask, bias, serve = BIASED[case]
    arrays = tensors(**shape)
    if implementation in serve:
        check_against_oracle(arrays, mask, implementation, bias=bias)
    else:
        with pytest.raises(ValueError, match=f"{implementation} attention does not support"):
            attention(*arrays[:3], mask, bias, implementation=implementation)


@pytest.mark.parametrize("implementation", ["dense", "banded"])
def test_a_bias_of_zero_is_none(implementation):
    arrays, mask = tensors(queries=40, heads=3), window(5, heads=3)
    zero = Toeplitz(jnp.zeros((3, 7)))
    plain = value_and_gradients(*arrays, mask, implementation=implementation)
    biased = value_and_gradients(*arrays, mask, zero, implementation=implementation)
    for a, b in zip(plain, biased[:4], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("implementation", ["dense", "banded"])
def test_a_large_bias_decides_alone_and_stays_finite(implementation):
    """0 for j = i and -10^6 elsewhere: each query gets its own value."""
    query, key, value, _ = tensors(queries=40)
    own = Toeplitz(jnp.full((1, 7), -1e6).at[0, 3].set(0.0))
    out = attention(query, key, value, window(7), own, implementation=implementation)
    np.testing.assert_allclose(out, value, atol=1e-6)


def test_auto_and_weights_take_a_bias_that_is_not_relative():
    arrays, mask, bias = tensors(queries=128)[:3], window(11), table(1, 2, 128, 128)
    _, weights = attention(*arrays, mask, bias, return_weights=True)
    np.testing.assert_allclose(weights.sum((3, 4)), 1, rtol=1e-5)
    np.testing.assert_array_equal(
        attention(*arrays, mask, bias), attention(*arrays, mask, bias, implementation="dense")
    )
    want = numpy_reference.attend(*arrays, mask, bias.by_hand(128, 128)).weights
    np.testing.assert_allclose(weights, want, atol=1e-6)


def test_half_precision_keeps_the_biass_bits():
    """1000 + 1/4 and 1000 are equal in bfloat16; 1/4 decides between two equal keys."""
    query, key = (jnp.zeros((1, n, 1, 2), jnp.bfloat16) for n in (1, 2))
    value = jnp.eye(2, dtype=jnp.bfloat16)[None, :, None]
    bias = Toeplitz(jnp.float32([[0, 1000.0, 1000.25]]))
    weights = attention(query, key, value, Mask(), bias)[0, 0, 0]
    np.testing.assert_allclose(weights, 1 / (1 + np.exp([0.25, -0.25])), atol=4e-3)
