"""The verdict on a claim, on simulated trials."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from common_jax.metrics.seeds import Deviation, pooled_deviation
from launch.reproduce.verdict import judge

TRIALS = 3000
# standard deviations of the seeds and of the examples' mean
NOISE = [(1.0, 0.0), (0.0, 0.5), (1.0, 0.3), (0.3, 1.0)]
DESIGNS = itertools.product([2, 3, 5], NOISE)
each_design = pytest.mark.parametrize("seeds,noise", [*DESIGNS])

# By row of a table, the standard deviation of the seeds and their number.
EQUAL = [(1.0, 3)] * 6
NOISY_ROW = [(3.0, 3), *[(1.0, 3)] * 5]
NOISY_PAIR = [(3.0, 3), (3.0, 3), *[(1.0, 8)] * 4]
TWO_KINDS = [(1.0, 3), (2.0, 3)] * 3
ONE_AMONG_MANY = [(4.0, 3), *[(1.0, 3)] * 20]
OWN_SEEDS = [(0.3, 5), (1.0, 8), (6.0, 3), (1.0, 3)]
FEW_SEEDS = [(4.0, 2), (2.0, 2), (1.0, 2), (0.5, 2)]
TABLES = {name: rows for name, rows in globals().items() if name.isupper() and name not in
          ("TRIALS", "NOISE", "DESIGNS")}  # fmt: skip


def simulated(effect, seeds, noise, random):
    """Verdicts on simulated differences with the true difference `effect`."""
    of_seeds, of_examples = noise
    for _ in range(TRIALS):
        shared = random.normal(0, of_examples)
        values = random.normal(effect + shared, of_seeds, seeds)
        yield judge(values.tolist(), example_error=of_examples)


def simulated_tables(rows, random, effect=0.0, example_error=0.0):
    """Verdicts on the first two rows of simulated tables, with a true difference."""
    for _ in range(TRIALS):
        values = drawn(rows, random, effect + random.normal(0, example_error))
        yield judge(*values[:2], pooled_deviation(values), example_error)


def drawn(rows, random, effect):
    """The values of each row's seeds; those of the first are larger by `effect`."""
    effects = [effect, *[0.0] * (len(rows) - 1)]
    return [
        random.normal(mean, deviation, seeds).tolist()
        for mean, (deviation, seeds) in zip(effects, rows, strict=True)
    ]


def detectable(seeds, noise, **options):
    """The smallest detectable effect, given differences with exactly the true spread."""
    of_seeds, of_examples = noise
    spread = np.linspace(-1, 1, seeds)
    spread *= of_seeds / max(spread.std(ddof=1), 1e-9)
    return judge(spread.tolist(), example_error=of_examples, **options).detectable


def share(verdicts, decision):
    return np.mean([verdict.decision == decision for verdict in verdicts])


@each_design
def test_without_an_effect_at_most_5_percent_are_confirmed(seeds, noise):
    verdicts = [*simulated(0.0, seeds, noise, np.random.default_rng(0))]
    for decision in ("confirmed", "contradicted"):
        assert share(verdicts, decision) <= 0.05


@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("example_error", [0.0, 0.5])
def test_without_an_effect_at_most_5_percent_are_confirmed_in_a_table(rows, example_error):
    """Also where the deviations of the rows differ, and the claim's rows are the noisy ones."""
    random = np.random.default_rng(3)
    verdicts = [*simulated_tables(rows, random, example_error=example_error)]
    for decision in ("confirmed", "contradicted"):
        assert share(verdicts, decision) <= 0.058  # 0.05 and the error of 3,000 tables


def test_pooling_finds_smaller_effects_than_the_two_rows_alone():
    powers = []
    for pooled in (True, False):
        random, confirmed = np.random.default_rng(4), 0
        for _ in range(TRIALS):
            values = drawn(EQUAL, random, 2.5)
            deviation = pooled_deviation(values) if pooled else None
            confirmed += judge(*values[:2], deviation).decision == "confirmed"
        powers.append(confirmed / TRIALS)
    assert powers[0] > powers[1] + 0.1


def test_a_noisy_row_does_not_widen_the_interval_of_rows_with_five_seeds():
    first, second = [1.0, 1.2, 1.1, 1.4, 0.9], [0.4, 0.6, 0.3, 0.2, 0.5, 0.6]
    verdict = judge(first, second, Deviation(6.0, 20))
    welch = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert (verdict.low, verdict.high) == pytest.approx((welch.low, welch.high))
    assert verdict.decision == "confirmed"
    assert judge(first[:4], second, Deviation(6.0, 20)).decision == "undecidable"


@each_design
def test_at_the_smallest_detectable_effect_80_percent_are_confirmed(seeds, noise):
    verdicts = simulated(detectable(seeds, noise), seeds, noise, np.random.default_rng(1))
    assert share([*verdicts], "confirmed") >= 0.785  # of 3,000 trials: 0.8 +- 0.007


@pytest.mark.parametrize("rows", [EQUAL, *([(1.0, 8), (1.0, seeds), (1.0, 3)] for seeds in (3, 5))])
@pytest.mark.parametrize("example_error", [0.0, 0.5])
def test_at_the_smallest_detectable_effect_of_a_table_80_percent_are_confirmed(rows, example_error):
    exact = [np.linspace(-1, 1, seeds) for _, seeds in rows]
    exact = [(values / values.std(ddof=1)).tolist() for values in exact]
    effect = judge(*exact[:2], pooled_deviation(exact), example_error).detectable
    verdicts = simulated_tables(rows, np.random.default_rng(5), effect, example_error)
    assert abs(share([*verdicts], "confirmed") - 0.8) < 0.02


@each_design
def test_equal_systems_are_comparable_and_those_that_differ_by_the_bound_are_not(seeds, noise):
    """With probabilities of 80 % at the bound `detectable`, and of at most 5 %."""
    of_seeds, of_examples = noise
    bound, random = detectable(seeds, noise, within=1.0), np.random.default_rng(2)
    confirmed = {}
    for effect, count in ((0.0, 4 * TRIALS), (bound, TRIALS)):  # 0.8 +- 0.004
        seen = effect + random.normal(0, of_seeds, (count, seeds))
        seen += random.normal(0, of_examples, (count, 1))
        verdicts = [judge(each.tolist(), example_error=of_examples, within=bound) for each in seen]
        confirmed[effect] = share(verdicts, "confirmed")
    assert confirmed[0.0] >= 0.785 and confirmed[bound] <= 0.05


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
    assert alone.decision == "undecidable" and math.isinf(alone.detectable)
    assert judge([3.0, 3.1], [1.0], Deviation(0.1, 9)).decision == "undecidable"
    assert judge([1.0, 1.0]).decision == "confirmed"
    assert judge([0.0, 0.0]).decision == "undecidable"
    apart = judge([-1.0, -1.1, -0.9])
    assert apart.decision == "contradicted" and apart.high < 0
    # Student's t-test of three numbers by hand: error 0.1 / sqrt(3), t(2, 0.975) = 4.303
    assert apart.low == pytest.approx(-1 - 4.30265 * 0.1 / math.sqrt(3), rel=1e-5)
