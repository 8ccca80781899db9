"""Intervals over seeds, by simulation."""

import numpy as np

from launch.seeds import interval_of_means


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
