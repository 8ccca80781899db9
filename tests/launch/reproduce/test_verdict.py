"""The verdict on a claim, against SciPy and numbers by hand."""

import math

import numpy as np
import pytest
from scipy import stats

from launch.reproduce import evidence as evidence_module
from launch.reproduce import verdict as verdict_module
from launch.reproduce.evidence import OWN_SEEDS as ENOUGH
from launch.reproduce.evidence import Pooled, Trials
from launch.reproduce.verdict import benjamini_hochberg, holm
from launch.seeds import AdditiveFit, Deviation


def judge(values, than=None, pooled=None, example_error=0.0, within=None):
    """The verdict on unpaired rows, with a deviation that other rows give."""
    samples = [np.array([sample]) for sample in (values, than) if sample is not None]
    evidence = evidence_module._evidence(samples, 0.0, None, example_error)
    if pooled is not None and 1 < evidence.sizes.min() < ENOUGH:
        factor = float((1 / evidence.sizes).sum())
        variance = np.array([pooled.value**2])
        pooled = Pooled(evidence.means, variance, pooled.freedom, factor)
        evidence = evidence._replace(pooled=pooled)
    return verdict_module.judge(evidence, within)


def test_a_noisy_row_does_not_widen_the_interval_of_rows_with_five_seeds():
    first, second = [1.0, 1.2, 1.1, 1.4, 0.9], [0.4, 0.6, 0.3, 0.2, 0.5, 0.6]
    verdict = judge(first, second, Deviation(6.0, 20))
    welch = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (verdict.low, verdict.high) == pytest.approx((welch.low, welch.high))
    assert verdict.decision == "holds"
    assert judge(first[:4], second, Deviation(6.0, 20)).decision == "open"


def test_the_interval_is_students_with_the_pooled_deviation():
    first, second = [1.0, 1.2, 1.1], [0.4, 0.6]
    verdict = judge(first, second, Deviation(0.5, 10))
    half = stats.t.ppf(0.975, 10) * 0.5 * math.sqrt(1 / 3 + 1 / 2)
    assert (verdict.low, verdict.high) == pytest.approx((0.6 - half, 0.6 + half))


def test_noisy_rows_have_their_own_interval():
    first, second = [0.0, 4.0, 9.0], [5.0, 5.2, 5.1, 4.9]
    verdict = judge(first, second, Deviation(0.1, 100))
    welch = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.90)
    assert (verdict.low, verdict.high) == pytest.approx((welch.low, welch.high))


def test_limiting_cases():
    alone = judge([3.0])
    assert alone.decision == "open" and math.isinf(alone.detectable)
    assert judge([3.0, 3.1], [1.0], Deviation(0.1, 9)).decision == "open"
    assert judge([1.0, 1.0]).decision == "holds"
    assert judge([0.0, 0.0]).decision == "open"
    apart = judge([-1.0, -1.1, -0.9])
    assert apart.decision == "fails" and apart.high < 0
    # Student's t-test of three numbers by hand: error 0.1 / sqrt(3), t(2, 0.975) = 4.303
    assert apart.low == pytest.approx(-1 - 4.30265 * 0.1 / math.sqrt(3), rel=1e-5)


def test_rows_with_unequal_seeds_are_compared_by_the_additive_model():
    """Against a regression on dummies of rows and seeds, with statistics by hand."""
    random = np.random.default_rng(8)
    values = random.normal(size=(1, 4, 6)) + 3 * random.normal(size=6)
    values[0, 1, 3:] = values[0, 2, :2] = values[0, 3, 1:] = np.nan  # the last row has one seed
    evidence = Trials(values).difference(0, 1, paired=True)
    row, seed = np.nonzero(~np.isnan(values[0, :3]))
    design = np.hstack([np.eye(3)[row], np.eye(6)[seed][:, 1:]])
    coefficients, squares, rank, _ = np.linalg.lstsq(design, values[0, row, seed])
    freedom = len(row) - rank
    error = squares[0] / freedom * np.linalg.inv(design.T @ design)[:2, :2]
    error = math.sqrt(error[0, 0] + error[1, 1] - 2 * error[0, 1])
    mean = coefficients[0] - coefficients[1]
    half = stats.t.ppf(0.975, freedom) * error
    common = values[0, 0, :3] - values[0, 1, :3]
    own = stats.t.interval(0.90, 2, common.mean(), stats.sem(common))
    (low, high), p = evidence.interval(), evidence.p()
    assert (low, high) == pytest.approx((min(mean - half, own[0]), max(mean + half, own[1])))
    assert evidence.center == pytest.approx(mean)
    pooled = 2 * stats.t.sf(abs(mean) / error, freedom)
    assert p == pytest.approx(max(pooled, stats.ttest_1samp(common, 0).pvalue))


# With NumPy 2.5's `pinv` and its own limit, the first three are wrong by 1 to 2.
@pytest.mark.parametrize(
    "seeds",
    [
        [16, 16, 6, 11, 12, 15, 3, 7, 9, 2, 4, 4, 4, 5, 11, 16],
        [14, 14, 11, 8, 2, 5, 7, 3, 4, 1, 2, 2, 7, 4, 8, 10, 3, 14],
        [19, 19, 9, 19, 9, 16, 18, 19, 12, 3, 19, 10, 7, 4, 3, 6],
        [5, 5, 3],
    ],
)
def test_complete_rows_differ_by_their_means_in_the_additive_model(seeds):
    present = np.arange(max(seeds)) < np.array(seeds)[:, None]
    values = np.random.default_rng(0).normal(50, 1, (1, *present.shape))
    difference, _ = AdditiveFit(present).difference(values, 0, 1)
    assert difference == pytest.approx((values[0, 0] - values[0, 1]).mean(), abs=1e-9)


def test_five_common_seeds_are_judged_alone():
    random = np.random.default_rng(9)
    values = random.normal(size=(1, 3, 8))
    values[0, 1, 5:] = np.nan
    values[0, 2] *= 50
    (low,), (high,) = Trials(values).difference(0, 1, paired=True).interval()
    test = stats.ttest_rel(values[0, 0, :5], values[0, 1, :5])
    interval = test.confidence_interval(0.95)
    assert (low, high) == pytest.approx((interval.low, interval.high))
    assert Trials(values).difference(0, 1, paired=True).p() == pytest.approx(test.pvalue)


def test_rows_without_two_common_seeds_are_unpaired():
    values = np.random.default_rng(10).normal(size=(1, 3, 6))
    values[0, 0, 3:] = values[0, 1, :2] = np.nan  # one seed in common
    paired, unpaired = (Trials(values).difference(0, 1, paired=flag) for flag in (True, False))
    assert paired.interval() == unpaired.interval() and len(paired.sizes) == 2


def test_p_is_the_level_at_which_the_interval_reaches_zero():
    """With the noise of examples: at the level p the half width by Howe is the difference."""
    first, second = [1.0, 1.4, 1.2, 1.9, 1.1], [0.7, 0.9, 0.8, 0.1, 0.6]
    verdict = judge(first, second, example_error=0.2)
    test = stats.ttest_ind(first, second, equal_var=False)
    seeds = stats.t.isf(verdict.p / 2, test.df) * verdict.mean / test.statistic
    half = math.hypot(seeds, stats.norm.isf(verdict.p / 2) * 0.2)
    assert half == pytest.approx(verdict.mean)
    assert judge(first, second).p == pytest.approx(test.pvalue)


def test_p_of_comparable_systems_is_that_of_two_one_sided_tests():
    values = [0.1, -0.2, 0.3, 0.0, 0.1]
    p = judge(values, within=0.5).p
    tests = [stats.ttest_1samp(values, bound).pvalue for bound in (-0.5, 0.5)]
    assert p == pytest.approx(max(tests))
    outside = judge([value + 2 for value in values], within=0.5)
    bound = stats.ttest_1samp(values, -1.5).pvalue
    assert outside.decision == "fails" and outside.p == pytest.approx(bound)


def test_corrections_are_those_of_scipy_and_of_the_definition():
    p = np.array([0.03, 0.001, 0.04, 0.012, 0.9])
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))
    assert holm(p) == pytest.approx([0.09, 0.005, 0.09, 0.048, 0.9])
    assert benjamini_hochberg(np.array([])).size == 0
