"""The verdict on a claim: one system is better than another, by runs with several seeds."""

import dataclasses
import functools
import math
from typing import Literal

import numpy as np
from jaxtyping import Float

from launch.reproduce.evidence import Evidence, normal_quantile

POWER = 0.8
_DRAWS = 4000  # simulated estimates over which the power is averaged

Decision = Literal["holds", "fails", "open"]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The verdict on a claim "A is better than B".

    Attributes:
      decision: "holds" if the interval of the difference is above 0, "fails" if it is below 0, else
        "open"; of a claim "A is comparable with B", "holds" if the interval is within the bounds,
        "fails" if it is outside of them.
      mean: the difference over the seeds.
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
    _evidence: Evidence

    @functools.cached_property
    def p(self) -> float | None:
        """The level at which the interval reaches 0, or the bound; None with a single seed."""
        evidence = self._evidence
        return float(evidence.p(self.within)[0]) if evidence.has_interval else None

    @functools.cached_property
    def detectable(self) -> float:
        """`detectable` with these seeds."""
        return detectable(self._evidence, self.within)


def judge(evidence: Evidence, within: float | None = None) -> Verdict:
    """The verdict by the trials.

    Args:
      evidence: of one draw, the real trials.
      within: the claim is that A and B are comparable, which differ by less than this.
    """
    ends = evidence.interval()
    low, high = (float(end[0]) for end in ends)

    # The interval decides: it excludes 0, or is within the bound.
    if within is None:
        holds = low > 0
        fails = high < 0
    else:
        holds = -within < low and high < within
        fails = low > within or high < -within

    return Verdict(
        "holds" if holds else "fails" if fails else "open",
        float(evidence.center[0]),
        low,
        high,
        normal_quantile() * evidence.example_error,
        within,
        evidence,
    )


def detectable(evidence: Evidence, within: float | None = None) -> float:
    """The smallest true difference whose interval excludes 0 with a probability of 80 %, given this
    noise; of a claim that A is comparable with B, the smallest bound with which equal systems are
    comparable. By bisection of the power, which is averaged over the estimates of the deviation
    that so many seeds give.

    Args:
      evidence: of one draw; its numbers of seeds may be those that are planned.
    """
    from scipy.special import ndtr  # slow to import

    if not evidence.has_interval:
        return math.inf
    error = evidence.true_error
    half = evidence.simulated_half_widths(_DRAWS)
    if not error:
        return 0.0
    low = 0.0
    high = float(half.max()) + 10 * error
    for _ in range(40):
        middle = (low + high) / 2
        power = ndtr((middle - half) / error)
        if within is not None:
            power = np.maximum(2 * power - 1, 0)
        enough = power.mean() >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return high


def benjamini_hochberg(p: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n m"]:
    """The smallest false discovery rate of a family of m claims at which each is still decided
    (Benjamini and Hochberg 1995): p times m over its rank, and not above that of a larger p."""
    count = p.shape[-1]
    order = np.argsort(p, axis=-1)
    scaled = np.take_along_axis(p, order, -1) * count / np.arange(1, count + 1)
    adjusted = np.minimum.accumulate(scaled[..., ::-1], axis=-1)[..., ::-1]
    result = np.empty_like(p)
    np.put_along_axis(result, order, np.minimum(adjusted, 1.0), -1)
    return result


def holm(p: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n m"]:
    """The smallest probability of any false decision in a family of m claims at which each is still
    decided (Holm 1979)."""
    count = p.shape[-1]
    order = np.argsort(p, axis=-1)
    scaled = np.take_along_axis(p, order, -1) * np.arange(count, 0, -1)
    result = np.empty_like(p)
    np.put_along_axis(result, order, np.minimum(np.maximum.accumulate(scaled, -1), 1.0), -1)
    return result
