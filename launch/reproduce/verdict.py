"""The verdict on a claim: one system is better than another, by runs with several seeds."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from common_jax.metrics.seeds import Deviation

CONFIDENCE = 0.95
OWN_CONFIDENCE = 0.90  # of the interval of the two rows alone, which bounds the pooled one
OWN_SEEDS = 5  # of both rows, which estimate their deviations without the other rows
POWER = 0.8
_DRAWS = 4000  # simulated estimates over which the power is averaged


Decision = Literal["confirmed", "contradicted", "undecidable"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on a claim "A is better than B".

    Attributes:
      decision: "confirmed" if the interval of the difference is above 0, "contradicted" if it is
        below 0, else "undecidable"; of a claim "A is comparable with B", "confirmed" if the
        interval is within the bounds, "contradicted" if it is outside of them.
      mean: difference of the means over the seeds.
      low, high: its 95 % interval; infinite if A or B has a single seed.
      example_half_width: half the width of the 95 % interval with the noise of the examples only.
      within: the bound of a claim that A is comparable with B.
    """

    decision: Decision
    mean: float
    low: float
    high: float
    example_half_width: float
    within: float | None
    _noise: "_Noise"

    @functools.cached_property
    def detectable(self) -> float:
        """The smallest true difference that is confirmed with a probability of 80 %, given this
        noise; of a claim that A is comparable with B, the smallest bound with which equal systems
        are confirmed to be so. By bisection of the power, which is averaged over the estimates of
        the deviation that so many seeds give."""
        from scipy.special import ndtr  # slow to import

        if math.isinf(self.high):
            return math.inf
        error, half = self._noise.error, self._noise.simulated_half_widths()
        if not error:
            return 0.0
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
    values: Sequence[float],
    than: Sequence[float] | None = None,
    pooled: Deviation | None = None,
    example_error: float = 0.0,
    within: float | None = None,
) -> Verdict:
    """Judges whether the values of A are larger than those of B.

    Two sources of noise are independent: the seeds, and the examples, which all seeds share. The
    half width of the interval is the root of the sum of the squares of both intervals' half widths:
    exact if one of them is 0, otherwise not too narrow (Howe 1974). The interval over the seeds is
    Student's with the deviation pooled over the rows of the table, since a few seeds estimate none;
    it is not narrower than the 90 % interval (Welch 1947) from the values of A and B alone. Thus at
    most 5 % of claims without an effect are confirmed also where the deviations of rows differ, and
    2.5 % where they do not. If both have five seeds or more, the interval is the 95 % interval from
    their values alone, whatever the deviations of other rows: 2.5 % in both cases.

    Args:
      values: of A, one for each seed.
      than: of B; None if `values` are differences A - B already.
      pooled: the deviation of all rows of the table; None if there is none.
      example_error: standard error, over the examples, of the difference.
      within: the claim is that A and B are comparable, which differ by less than this.

    References:
      Howe (1974), Approximate Confidence Limits on the Mean of X + Y Where X and Y Are Two Tabled
      Independent Random Variables. Welch (1947), The Generalization of 'Student's' Problem when
      Several Different Population Variances are Involved.
    """
    samples = [np.asarray(sample, float) for sample in (values, than) if sample is not None]
    means = [float(sample.mean()) for sample in samples]
    mean = means[0] - sum(means[1:])
    sizes = np.array([len(sample) for sample in samples])
    enough = bool((sizes > 1).all())
    variances = np.array([sample.var(ddof=1) if enough else 0.0 for sample in samples])
    if sizes.min() >= OWN_SEEDS:
        pooled = None
    noise = _Noise(sizes, variances, pooled, example_error)
    by_examples = float(_normal_quantile() * example_error)
    half = noise.half_width if enough else math.inf
    low, high = mean - half, mean + half
    if within is None:
        holds, fails = low > 0, high < 0
    else:
        holds, fails = -within < low and high < within, low > within or high < -within
    decision: Decision = "confirmed" if holds else "contradicted" if fails else "undecidable"
    return Verdict(decision, mean, low, high, by_examples, within, noise)


@dataclasses.dataclass(frozen=True)
class _Noise:
    """The noise of a difference of means.

    Attributes:
      sizes: the number of seeds of A, and of B.
      variances: of their values.
    """

    sizes: np.ndarray
    variances: np.ndarray
    pooled: Deviation | None
    example_error: float

    @property
    def half_width(self) -> float:
        """Half the width of the interval of the difference."""
        pooled = self.pooled.value**2 if self.pooled else 0.0
        return float(self._half_widths(self.variances[:, None], np.array([pooled]))[0])

    @property
    def error(self) -> float:
        """The standard error of the difference."""
        return math.hypot(math.sqrt(self._true_variances @ (1 / self.sizes)), self.example_error)

    @property
    def _true_variances(self) -> np.ndarray:
        """The variances for simulations: those of the values, but not below the pooled one."""
        return np.maximum(self.variances, self.pooled.value**2 if self.pooled else 0.0)

    def simulated_half_widths(self) -> Float[np.ndarray, "draws"]:
        """Half the widths of the intervals from the estimates of other trials of the same kind."""
        random, freedom = np.random.default_rng(0), self.sizes - 1
        squares = random.chisquare(freedom[:, None], (len(freedom), _DRAWS))
        squares *= self._true_variances[:, None]
        pooled = np.zeros(_DRAWS)
        if self.pooled:
            remaining = self.pooled.freedom - int(freedom.sum())
            rest = random.chisquare(remaining, _DRAWS) if remaining > 0 else np.zeros(_DRAWS)
            pooled = (squares.sum(0) + rest * self.pooled.value**2) / self.pooled.freedom
        return self._half_widths(squares / freedom[:, None], pooled)

    def _half_widths(
        self, variances: Float[np.ndarray, "samples n"], pooled: Float[np.ndarray, "n"]
    ) -> Float[np.ndarray, "n"]:
        """Half the widths of the intervals with n estimates of the variances."""
        from scipy.special import stdtrit  # slow to import

        sizes = self.sizes[:, None]
        errors = variances / sizes  # squared, of the means
        total = errors.sum(0)
        with np.errstate(invalid="ignore"):
            freedom = total**2 / (errors**2 / (sizes - 1)).sum(0)
        freedom = np.where(total > 0, freedom, 1.0)
        confidence = OWN_CONFIDENCE if self.pooled else CONFIDENCE
        seeds = stdtrit(freedom, (1 + confidence) / 2) * np.sqrt(total)
        if self.pooled:
            quantile = stdtrit(self.pooled.freedom, (1 + CONFIDENCE) / 2)
            seeds = np.maximum(seeds, quantile * np.sqrt(pooled * (1 / sizes).sum()))
        return np.hypot(seeds, _normal_quantile() * self.example_error)


def _normal_quantile() -> float:
    from scipy.special import ndtri  # slow to import

    return float(ndtri((1 + CONFIDENCE) / 2))
