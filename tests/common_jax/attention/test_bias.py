"""Biases under every implementation, by what each declares to serve, against the oracle."""

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.attention.api import UNSUPPORTED, obstacles
from common_jax.masks import Mask
from tests.common_jax.attention import cases, numpy_reference
from tests.common_jax.attention.cases import (
    BIASED,
    DENSE_ONLY,
    SELF_ATTENTION_IN_A_WINDOW,
    Toeplitz,
    attention,
    check_against_oracle,
    table,
    toeplitz,
    value_and_gradients,
    window,
)


def tensors(**shape):
    """The tensors of `cases`, on a device."""
    return [jnp.asarray(x) for x in cases.tensors(**shape)]


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


def test_declarations_are_those_of_the_cases():
    """The implementations that support a mask, listed by hand: one that rejected all masks would
    skip the tests of its values."""
    for kinds, supported in (
        (SELF_ATTENTION_IN_A_WINDOW, {"dense", "banded"}),
        (DENSE_ONLY, {"dense"}),
    ):
        for name, (shape, mask) in kinds.items():
            plain = mask.heads == 1
            reasons = obstacles(*map(jnp.asarray, tensors(**shape)[:2]), mask, None, False, False)
            able = {form for form, features in reasons.items() if not features}
            assert able == supported | ({"chunked"} if plain else set()), name


def test_the_oracles_bias_gradient_is_its_slope():
    *inputs, cotangent = (np.asarray(x, np.float64) for x in tensors(queries=4, heads=3, seed=3))
    mask, bias = window(3, heads=3), np.asarray(table(1, 3, 4, 4).numbers, np.float64)
    answer = numpy_reference.attend(*inputs, mask, bias, cotangent=cotangent)
    move, step = np.random.default_rng(4).standard_normal(bias.shape), 1e-6
    ends = [
        (numpy_reference.attend(*inputs, mask, bias + s * step * move).out * cotangent).sum()
        for s in (1, -1)
    ]
    np.testing.assert_allclose((answer.bias_grad * move).sum(), (ends[0] - ends[1]) / (2 * step))


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


def test_long_banded_equals_dense_without_an_array_of_all_pairs():
    arrays, mask, bias = tensors(queries=1024, heads=3), window(11, heads=3), toeplitz(3, reach=5)
    run = lambda form: value_and_gradients(*arrays, mask, bias, implementation=form)
    dense, banded = run("dense"), run("banded")
    for a, b in zip(jax.tree.leaves(banded), jax.tree.leaves(dense), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    largest = {form: _largest(lambda form=form: run(form)) for form in ("dense", "banded")}
    assert largest["banded"] < 1024 * 1024 < largest["dense"]
    auto, named = (
        str(
            jax.make_jaxpr(lambda b, f=form: attention(*arrays[:3], mask, b, implementation=f))(
                bias
            )
        )
        for form in ("auto", "banded")
    )
    assert auto == named


def _largest(function):
    """The size of the largest array of one head in a program, including its loops."""

    def arrays(jaxpr):
        for equation in jaxpr.eqns:
            yield from (v.aval.size for v in equation.outvars)
            for inner in jax.extend.core.jaxprs_in_params(equation.params):
                yield from arrays(inner)

    return max(arrays(jax.make_jaxpr(function)().jaxpr)) // 3


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
    query = jnp.zeros((1, 1, 1, 2), jnp.bfloat16)
    key, value = (
        jnp.zeros((1, 2, 1, 2), jnp.bfloat16),
        jnp.eye(2, dtype=jnp.bfloat16)[None, :, None],
    )
    bias = Toeplitz(jnp.float32([[0, 1000.0, 1000.25]]))
    out = attention(query, key, value, Mask(), bias)
    np.testing.assert_allclose(
        out[0, 0, 0], [1 / (1 + np.e**0.25), 1 / (1 + np.e**-0.25)], atol=4e-3
    )
