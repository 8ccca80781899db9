"""What masks allow, their conjunctions, heads' areas, softmax, positions and lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from common_jax import masks
from common_jax.masks import Mask


def expanded(mask: Mask, queries: int, keys: int, heads: int = 1) -> np.ndarray:
    return np.asarray(mask.allowed(queries, keys, heads))


EVEN, NEAR = (lambda offset: offset % 2 == 0), (lambda offset: abs(offset) < 3)
RULES = masks.relative(EVEN) & masks.relative(NEAR) & masks.relative(EVEN)
PAIR_OF_ONES = masks.segments(jnp.ones((1, 2), int), jnp.ones((1, 2), int))


def test_conjunction_is_the_intersection():
    ids = jnp.array([[1, 1, 2, 2, 2], [3, 3, 3, 0, 0]])
    keep = jnp.array([[True, False, True, True, True], [True, True, False, True, True]])
    windows = masks.token_window(3), masks.token_window(7)
    everything = Mask()
    parts = [masks.segments(ids, ids), masks.padding(keep, keep), *windows, masks.causal()]
    for part in parts:
        everything = everything & part
    separate = np.logical_and.reduce(np.broadcast_arrays(*(expanded(p, 5, 5) for p in parts)))
    np.testing.assert_array_equal(expanded(everything, 5, 5), separate)
    assert everything.window == 3 and everything.direction == "left"
    assert RULES.rules == (EVEN, NEAR)
    area = masks.head_window(3, "wrap")
    for other in (masks.causal(), masks.head_window(1), area):
        for combined in (area & other, other & area):
            assert (combined.heads, combined.head_edge) == (3, "wrap")


@pytest.mark.parametrize(
    "one, other",
    [
        (masks.causal(), masks.direction("right")),
        (masks.causal(), masks.direction("alternate")),
        (masks.head_window(3), masks.head_window(5)),
        (masks.head_window(3), masks.head_window(3, "wrap")),
        (PAIR_OF_ONES, PAIR_OF_ONES),
    ],
)
def test_conflicts_raise(one, other):
    with pytest.raises(ValueError, match="do not combine"):
        one & other


@pytest.mark.parametrize("make", [masks.token_window, masks.head_window])
@pytest.mark.parametrize("size", [0, 2, -1])
def test_windows_are_odd(make, size):
    with pytest.raises(ValueError, match="odd"):
        make(size)


@pytest.mark.parametrize("axis", [-1, 1])
def test_masked_softmax_is_each_lines_own_and_zero_where_nothing_is_allowed(axis):
    random = np.random.default_rng(0)
    allowed = random.random((2, 4, 5)) < 0.6
    allowed[0, 2] = allowed[1, :, 3] = False
    scores = np.where(allowed, 5 * random.standard_normal(allowed.shape), np.nan)
    cotangent = random.standard_normal(allowed.shape)
    weights = softmax(np.where(allowed, scores, -1e9), axis=axis) * allowed
    slopes = weights * (cotangent - (weights * cotangent).sum(axis, keepdims=True))
    masked = lambda scores: masks.masked_softmax(scores, jnp.asarray(allowed), axis=axis)
    got, pull = jax.vjp(masked, jnp.asarray(scores, jnp.float32))
    (gradient,) = pull(jnp.asarray(cotangent, jnp.float32))
    for actual, expected in ((got, weights), (gradient, slopes)):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        assert not np.asarray(actual)[~allowed].any()
