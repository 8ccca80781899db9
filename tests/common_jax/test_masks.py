"""What masks allow, their conjunctions, heads' areas, softmax, positions and lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax import masks
from common_jax.masks import Mask
from tests import numpy_reference


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
    weights, slopes = np.zeros_like(scores), np.zeros_like(scores)
    views = [np.moveaxis(a, axis, -1) for a in (allowed, scores, cotangent, weights, slopes)]
    for at in np.ndindex(views[0].shape[:-1]):
        may, line, above, weight, slope = (view[at] for view in views)
        if may.any():
            weight[may] = own = numpy_reference.softmax(line[may])
            slope[may] = own * (above[may] - own @ above[may])
    softmax = lambda scores: masks.masked_softmax(scores, jnp.asarray(allowed), axis=axis)
    got, pull = jax.vjp(softmax, jnp.asarray(scores, jnp.float32))
    (gradient,) = pull(jnp.asarray(cotangent, jnp.float32))
    for actual, expected in ((got, weights), (gradient, slopes)):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        assert not np.asarray(actual)[~allowed].any()


PACKED = np.array([[1, 1, 1, 2, 2, 0], [4, 5, 5, 5, 5, 5], [0, 0, 3, 3, 0, 0]])


def by_counting(ids, length):
    """Positions and lengths of runs of equal ids, position by position."""
    positions, lengths = np.zeros((2, len(ids), length), int)
    for row, line in enumerate(ids):
        for at in range(length):
            start = end = at
            while start > 0 and line[start - 1] == line[at]:
                start -= 1
            while end < length and line[end] == line[at]:
                end += 1
            positions[row, at], lengths[row, at] = at - start, (end - start) * (line[at] != 0)
    return positions, lengths


@pytest.mark.parametrize("ids", [PACKED, PACKED[:, :1]])
def test_positions_and_lengths_are_those_in_segments(ids):
    length = ids.shape[1]
    want_positions, want_lengths = by_counting(ids, length)
    mask = masks.segments(jnp.asarray(ids), jnp.asarray(ids[:, ::-1].copy()))
    valid = ids != 0
    actual = jax.jit(lambda mask: (mask.query_positions(length), mask.query_lengths(length)))(mask)
    np.testing.assert_array_equal(np.asarray(actual[0])[valid], want_positions[valid])
    np.testing.assert_array_equal(actual[1], want_lengths)
    np.testing.assert_array_equal(mask.key_lengths(length), want_lengths[:, ::-1])


def test_positions_and_lengths_of_rows_that_are_one_segment():
    valid = jnp.array([[True, True, False], [True, True, True], [False, False, False]])
    mask = masks.padding(valid)
    np.testing.assert_array_equal(mask.key_positions(3), [[0, 1, 2]])
    np.testing.assert_array_equal(mask.key_lengths(3), [[2, 2, 0], [3, 3, 3], [0, 0, 0]])
    np.testing.assert_array_equal(mask.query_positions(4), [[0, 1, 2, 3]])
    np.testing.assert_array_equal(mask.query_lengths(4), [[4, 4, 4, 4]])
