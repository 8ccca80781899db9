"""Intervals over seeds, against SciPy's and by simulation."""

import numpy as np
import pytest
from scipy import stats

from common_jax.metrics.seeds import interval_of_means


def test_one_group_has_students_interval():
    values = [20.1, 20.9, 19.7, 20.4]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    (half,) = interval_of_means([values])
    assert half == pytest.approx((high - low) / 2)


def test_groups_share_one_standard_deviation():
    groups = [[1.0, 3.0], [10.0, 10.0, 13.0], [5.0]]
    pooled = np.sqrt((2.0 + 6.0) / 3)  # sums of squares 2, 6 and 0 with 1, 2 and 0 degrees
    halves = [stats.t.ppf(0.975, 3) * pooled / np.sqrt(len(group)) for group in groups]
    assert interval_of_means(groups) == pytest.approx(halves)


def test_without_a_second_seed_there_are_no_intervals():
    assert interval_of_means([[1.0], [2.0]]) == [None, None]
    assert interval_of_means([]) == []


def test_it_covers_the_mean_in_95_of_100_sweeps():
    random = np.random.default_rng(0)
    truth = np.array([20.0, 25.0, 30.0, 30.0])
    hits = []
    for _ in range(1000):
        groups = random.normal(truth[:, None], 0.7, (4, 2)).tolist()
        halves = interval_of_means(groups)
        hits += [
            abs(np.mean(group) - mean) < half
            for group, mean, half in zip(groups, truth, halves, strict=True)
        ]
    assert 0.935 < np.mean(hits) < 0.965
