"""Reservoir samples: uniform, repeatable, and all of a short stream."""

import collections
import random

import numpy as np
import pytest
import scipy.stats

from common_jax.data.sampling import reservoir

DRAWS = [
    lambda seed: np.random.default_rng(seed).integers,
    lambda seed: random.Random(seed).randrange,
]


@pytest.mark.parametrize("draw", DRAWS)
def test_a_sample_is_the_same_again_and_of_distinct_items(draw):
    for size in (5, 9):
        assert reservoir(range(5), size, draw(0)) == [0, 1, 2, 3, 4]
    sample = reservoir(iter(range(10_000)), 1000, draw(0))
    assert sample == reservoir(range(10_000), 1000, draw(0))
    assert len(set(sample)) == 1000
    assert abs(sum(sample) / 1000 - 5000) < 5 * 10_000 / (12 * 1000) ** 0.5


@pytest.mark.parametrize("draw", DRAWS)
def test_a_sample_has_each_as_often(draw):
    counts = collections.Counter[int]()
    for seed in range(2000):
        sample = reservoir(iter(range(20)), 6, draw(seed))
        assert len(set(sample)) == 6
        counts.update(sample)
    assert scipy.stats.chisquare([counts[n] for n in range(20)]).pvalue > 1e-3
