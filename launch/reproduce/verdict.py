"""The verdict on a claim: one system is better than another, by runs with several seeds."""

import dataclasses
import functools
import math
from typing import Literal

import numpy as np
from jaxtyping import Float

CONFIDENCE = 0.95
POWER = 0.8
_GRID = 4000  # quantiles over which the power is averaged


Decision = Literal["confirmed", "contradicted", "undecidable"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on a claim "A is better than B".

    Attributes:
      decision: "confirmed" if the interval of the difference is above 0, "contradicted" if it is
        below 0, else "undecidable"; of a claim "A is comparable with B", "confirmed" if the
        interval is within the bounds, "contradicted" if it is outside of them.
      mean: of the differences A - B over the seeds.
      low, high: its 95 % interval; infinite for a single seed.
      seed_error, example_error: standard errors of the mean, over the seeds and over the examples.
      seeds: their number.
      within: the bound of a claim that A is comparable with B.
    """

    decision: Decision
    mean: float
    low: float
    high: float
    seed_error: float
    example_error: float
    seeds: int
    within: float | None = None

    @property
    def example_half_width(self) -> float:
        """Half the width of the 95 % interval with the noise of the examples only."""
        return float(_half_width(np.zeros(1), 1, self.example_error)[0])

    @functools.cached_property
    def detectable(self) -> float:
        """The smallest true difference that is confirmed with a probability of 80 %, given this
        noise; of a claim that A is comparable with B, the smallest bound with which equal systems
        are confirmed to be so. By bisection of the power, which is averaged over the
        chi-distributed estimates of `seed_error` that so many seeds give."""
        from scipy.special import chdtri, ndtr  # slow to import

        error, freedom = math.hypot(self.seed_error, self.example_error), self.seeds - 1
        if not freedom or not error:
            return 0.0 if freedom else math.inf
        quantiles = (np.arange(_GRID) + 0.5) / _GRID
        estimates = self.seed_error * np.sqrt(chdtri(freedom, quantiles) / freedom)
        half = _half_width(estimates, freedom, self.example_error)
        low, high = 0.0, float(half.max()) + 10 * error
        for _ in range(40):
            middle = (low + high) / 2
            power = ndtr((middle - half) / error)
            if self.within is not None:
                power = np.maximum(2 * power - 1, 0)
            enough = power.mean() >= POWER
            low, high = (low, middle) if enough else (middle, high)
        return high


def judge(
    differences: Float[np.ndarray, "seeds"],
    example_error: float = 0.0,
    within: float | None = None,
) -> Verdict:
    """Judges the differences A - B of a metric, one for each seed, of which a larger one is better.

    Two sources of noise are independent: the seeds, of which the differences show the spread, and
    the examples, which all seeds share. The half width of the interval is the root of the sum of
    the squares of both intervals' half widths, that of Student's t-test over the seeds and that of
    the normal distribution over the examples: exact if one of them is 0, otherwise not too narrow.

    Args:
      differences: of runs with the same seed and order of the data.
      example_error: standard error, over the examples, of the mean difference.
      within: the claim is that A and B are comparable, which differ by less than this.

    References:
      Howe (1974), Approximate Confidence Limits on the Mean of X + Y Where X and Y Are Two Tabled
      Independent Random Variables.
    """
    mean, seeds = float(differences.mean()), len(differences)
    if seeds < 2:
        unknown = (-math.inf, math.inf, math.inf)
        return Verdict("undecidable", mean, *unknown, example_error, seeds, within)
    seed_error = float(differences.std(ddof=1)) / math.sqrt(seeds)
    half = float(_half_width(np.array([seed_error]), seeds - 1, example_error)[0])
    low, high = mean - half, mean + half
    if within is None:
        holds, fails = low > 0, high < 0
    else:
        holds, fails = -within < low and high < within, low > within or high < -within
    decision: Decision = "confirmed" if holds else "contradicted" if fails else "undecidable"
    return Verdict(decision, mean, low, high, seed_error, example_error, seeds, within)


def _half_width(
    seed_error: Float[np.ndarray, "n"], freedom: int, example_error: float
) -> Float[np.ndarray, "n"]:
    from scipy.special import ndtri, stdtrit  # slow to import

    level = (1 + CONFIDENCE) / 2
    return np.hypot(stdtrit(freedom, level) * seed_error, ndtri(level) * example_error)
