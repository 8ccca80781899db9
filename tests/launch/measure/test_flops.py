"""Operations counted over traced programs, against hand arithmetic and XLA's own count."""

import jax
import jax.numpy as jnp
import pytest

from launch.measure.flops import count_flops

A, B = jnp.ones((3, 5, 7)), jnp.ones((3, 7, 11))


def counted(function, *arrays):
    return count_flops(jax.make_jaxpr(function)(*arrays))


def test_a_product_has_two_for_each_multiplication():
    assert counted(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), A, B) == 2 * 3 * 5 * 7 * 11


@pytest.mark.parametrize("groups", [1, 4])
def test_a_convolution(groups):
    x, kernel = jnp.ones((2, 9, 8)), jnp.ones((3, 8 // groups, 12))
    convolve = lambda x, kernel: jax.lax.conv_general_dilated(
        x, kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=groups
    )
    assert counted(convolve, x, kernel) == 2 * (2 * 9 * 12) * 3 * 8 // groups


def test_a_loop_counts_as_often_as_it_runs_and_of_branches_the_dearest():
    square = jnp.ones((6, 6))
    scanned = lambda x: jax.lax.scan(lambda x, _: (x @ square, None), x, length=5)[0]
    assert counted(scanned, square) == 5 * 2 * 6**3
    twice = lambda x: (x @ square) @ square
    branches = lambda x: jax.lax.cond(x[0, 0] > 0, twice, lambda x: x @ square, x)
    assert counted(branches, square) == 2 * 2 * 6**3
    nested = jax.jit(jax.checkpoint(scanned))
    assert counted(nested, square) == 5 * 2 * 6**3


def test_of_wide_layers_as_xla_counts_them():
    """Products dominate, so that both counts nearly agree."""

    def loss(weights, x):
        for weight in weights:
            x = jnp.tanh(x @ weight)
        return x.sum()

    weights, x = [jnp.ones((300, 300))] * 4, jnp.ones((200, 300))
    gradient = jax.jit(jax.grad(loss))
    analysis = gradient.lower(weights, x).compile().cost_analysis()
    assert counted(gradient, weights, x) == pytest.approx(analysis["flops"], rel=0.02)
