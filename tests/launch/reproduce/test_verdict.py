"""The verdict on a claim, on simulated trials."""

import itertools
import math

import numpy as np
import pytest

from launch.reproduce.verdict import judge

TRIALS = 3000
# standard deviations of the seeds and of the examples' mean
NOISE = [(1.0, 0.0), (0.0, 0.5), (1.0, 0.3), (0.3, 1.0)]
DESIGNS = itertools.product([2, 3, 5], NOISE)
each_design = pytest.mark.parametrize("seeds,noise", [*DESIGNS])


def simulated(effect, seeds, noise, random):
    """Verdicts on simulated trials with the true difference `effect`."""
    of_seeds, of_examples = noise
    for _ in range(TRIALS):
        shared = random.normal(0, of_examples)
        yield judge(effect + shared + random.normal(0, of_seeds, seeds), of_examples)


def detectable(seeds, noise, **options):
    """The smallest detectable effect, given differences with exactly the true spread."""
    of_seeds, of_examples = noise
    spread = np.linspace(-1, 1, seeds)
    spread *= of_seeds / max(spread.std(ddof=1), 1e-9)
    return judge(spread, of_examples, **options).detectable


@each_design
def test_without_an_effect_at_most_5_percent_are_confirmed(seeds, noise):
    verdicts = [*simulated(0.0, seeds, noise, np.random.default_rng(0))]
    for decision in ("confirmed", "contradicted"):
        assert np.mean([verdict.decision == decision for verdict in verdicts]) <= 0.05


@each_design
def test_at_the_smallest_detectable_effect_80_percent_are_confirmed(seeds, noise):
    verdicts = simulated(detectable(seeds, noise), seeds, noise, np.random.default_rng(1))
    confirmed = np.mean([verdict.decision == "confirmed" for verdict in verdicts])
    assert confirmed >= 0.79  # of 3,000 trials: 0.8 +- 0.007


@each_design
def test_equal_systems_are_comparable_and_those_that_differ_by_the_bound_are_not(seeds, noise):
    """With probabilities of 80 % at the bound `detectable`, and of at most 5 %."""
    of_seeds, of_examples = noise
    bound, random = detectable(seeds, noise, within=1.0), np.random.default_rng(2)
    confirmed = {}
    for effect, count in ((0.0, 4 * TRIALS), (bound, TRIALS)):  # 0.8 +- 0.004
        seen = effect + random.normal(0, of_seeds, (count, seeds))
        seen += random.normal(0, of_examples, (count, 1))
        decisions = [judge(each, of_examples, bound).decision for each in seen]
        confirmed[effect] = np.mean([decision == "confirmed" for decision in decisions])
    assert confirmed[0.0] >= 0.79 and confirmed[bound] <= 0.05


def test_limiting_cases():
    alone = judge(np.array([3.0]))
    assert alone.decision == "undecidable" and math.isinf(alone.detectable)
    assert judge(np.array([1.0, 1.0])).decision == "confirmed"
    assert judge(np.array([0.0, 0.0])).decision == "undecidable"
    apart = judge(np.array([-1.0, -1.1, -0.9]))
    assert apart.decision == "contradicted" and apart.high < 0
    # Student's t-test of three numbers by hand: error 0.1 / sqrt(3), t(2, 0.975) = 4.303
    assert apart.low == pytest.approx(-1 - 4.30265 * 0.1 / math.sqrt(3), rel=1e-5)
