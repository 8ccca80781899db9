"""Paired tests and intervals over seeds, against SciPy and by enumeration."""

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from common_jax.metrics.paired import mcnemar, paired_t, permutation_p
from launch.seeds import interval_of_means

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("count", [2, 9, 400])
def test_the_t_test_is_scipys(count):
    first, second = RANDOM.normal(0.1, size=count), RANDOM.normal(size=count)
    result = paired_t(first - second)
    expected = scipy.stats.ttest_rel(first, second)
    interval = expected.confidence_interval(0.95)
    assert result.mean == pytest.approx(np.mean(first) - np.mean(second))
    assert result.p == pytest.approx(expected.pvalue)
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high))


def test_the_detectable_difference_is_detected_in_80_of_100_samples():
    differences = np.linspace(-2, 2, 200)
    detectable = paired_t(RANDOM.permutation(differences)).detectable
    samples = RANDOM.normal(detectable, np.std(differences, ddof=1), (4000, 200))
    power = np.mean([paired_t(sample).p < 0.05 for sample in samples])
    assert power == pytest.approx(0.8, abs=0.03)  # 4.7 standard errors


@pytest.mark.parametrize("shift,p", [(0.0, 1.0), (0.5, 0.0)])
def test_differences_without_spread(shift, p):
    result = paired_t(np.full(4, shift))
    assert (result.mean, result.low, result.high, result.p) == (shift, shift, shift, p)
    with pytest.raises(ValueError, match="1 differences: at least 2"):
        paired_t(np.full(1, shift))


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_the_permutation_test_is_the_enumeration_of_all_signs(values):
    differences = np.array(values, float) / 3
    sums = [
        abs(sum(sign * value for sign, value in zip(signs, values, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    exact = sum(total >= abs(sum(values)) for total in sums) / len(sums)
    assert permutation_p(differences) == pytest.approx(exact, abs=0.025)  # 5 standard errors


def test_the_permutation_test_draws_in_several_chunks():
    differences = RANDOM.normal(0.05, 1, 2000)
    expected = scipy.stats.ttest_1samp(differences, 0).pvalue
    assert permutation_p(differences) == pytest.approx(expected, abs=0.025)


def binomial(wins, losses):
    return scipy.stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1


@pytest.mark.parametrize("count", range(25))
def test_mcnemars_test_of_few_pairs_is_the_sum_of_binomials(count):
    for wins in range(count + 1):
        assert mcnemar(wins, count - wins) == pytest.approx(binomial(wins, count - wins))


@pytest.mark.parametrize("wins,losses", [(25, 0), (13, 12), (14, 14), (30, 50), (700, 600)])
def test_mcnemars_test_of_many_pairs_is_chi_square_and_close_to_the_sum(wins, losses):
    p = mcnemar(wins, losses)
    if wins != losses:
        expected = (abs(wins - losses) - 1) ** 2 / (wins + losses)
        assert p == pytest.approx(scipy.stats.chi2.sf(expected, 1))
    assert p == pytest.approx(binomial(wins, losses), abs=0.005)


def test_the_interval_of_one_group_of_seeds_is_students():
    values = [20.1, 20.9, 19.7, 20.4]
    low, high = scipy.stats.t.interval(0.95, 3, np.mean(values), scipy.stats.sem(values))
    assert interval_of_means([values]) == pytest.approx([(high - low) / 2])


def test_groups_of_seeds_share_one_standard_deviation():
    groups = [[1.0, 3.0], [10.0, 10.0, 13.0], [5.0]]
    pooled = np.sqrt((2.0 + 6.0) / 3)  # sums of squares 2, 6 and 0 with 1, 2 and 0 degrees
    halves = [scipy.stats.t.ppf(0.975, 3) * pooled / np.sqrt(len(group)) for group in groups]
    assert interval_of_means(groups) == pytest.approx(halves)
    assert interval_of_means([[1.0], [2.0]]) == [None, None]  # no second seed
    assert interval_of_means([]) == []
