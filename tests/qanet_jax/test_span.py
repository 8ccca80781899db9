"""The best spans against an enumeration of all spans."""

import functools

import jax
import jax.export
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from common_jax.masks import MASKED
from qanet_jax.decode import best_spans

# Few values, so that spans often tie; MASKED is what the model gives to padding.
LOGITS = st.sampled_from(np.array([-2, -1, 0, 1, 2, MASKED], np.float32).tolist())
compiled = functools.cache(
    lambda length, count: jax.jit(functools.partial(best_spans, length=length, count=count))
)


def every_span(start, end, length):
    """(score, first, last) in float32, best first; equal scores are ordered by start, then by
    end."""
    size = len(start)
    spans = [(start[s] + end[e], s, e) for s in range(size) for e in range(s, size)]
    allowed = [(score, s, e) for score, s, e in spans if e - s < length]
    return sorted(allowed, key=lambda span: (-span[0], span[1], span[2]))


@pytest.mark.parametrize("size,length", [(1, 1), (1, 4), (5, 1), (5, 3), (4, 9)])
@pytest.mark.parametrize("count", [1, 3, 100])
def test_the_best_of_all_spans(size, length, count):
    @settings(max_examples=50)
    @given(logits=hnp.arrays(np.float32, (2, 2, size), elements=LOGITS))
    def check(logits):
        start, end = logits
        first, last, score = map(np.asarray, compiled(length, count)(start, end))
        for row in range(2):
            want = every_span(start[row], end[row], length)[:count]
            assert list(zip(score[row], first[row], last[row], strict=True)) == want

    check()


@pytest.mark.parametrize("length,count", [(1, 2), (3, 4), (9, 100)])
def test_an_exports_spans_are_the_same_behind_which_nothing_fits(length, count):
    find = jax.jit(functools.partial(best_spans, length=length, count=count))
    logits = jax.ShapeDtypeStruct(jax.export.symbolic_shape("B, N"), np.float32)
    exported = jax.export.export(find)(logits, logits)
    for size in (1, 5):
        start, end = np.random.default_rng(size).integers(-3, 3, (2, 2, size)).astype(np.float32)
        first, last, score = map(np.asarray, exported.call(start, end))
        assert score.shape == (2, count)
        for row in range(2):
            want = every_span(start[row], end[row], length)[:count]
            actual = list(zip(score[row], first[row], last[row], strict=True))
            assert actual[: len(want)] == want
            assert (last[row][len(want) :] >= size).all()
