"""Paired tests of two systems on the same examples; pure functions of arrays."""

import dataclasses
import math

import numpy as np
from jaxtyping import Float

_EXACT = 25  # discordant pairs from which McNemar's statistic is close to chi-square
_RESAMPLES = 10_000
_CHUNK = 2**22  # random signs in memory at once


@dataclasses.dataclass(frozen=True)
class Difference:
    """The mean of paired differences, with its test.

    Attributes:
      mean: of the first system minus the second.
      low, high: its 95 % interval.
      p: two-sided p-value of a mean of 0.
      detectable: the smallest true difference that a test at the 5 % level detects with a power of
        80 %, given the spread of these differences: (z(0.975) + z(0.8)) standard errors.
    """

    mean: float
    low: float
    high: float
    p: float
    detectable: float


def paired_t(differences: Float[np.ndarray, "n"]) -> Difference:
    """Student's paired t-test (Student 1908).

    Raises:
      ValueError: for fewer than two differences, which have no spread.
    """
    from scipy.special import ndtri, stdtr, stdtrit  # slow to import

    count = len(differences)
    if count < 2:
        raise ValueError(f"{count} differences: at least 2")
    mean = float(differences.mean())
    freedom = count - 1
    error = float(differences.std(ddof=1)) / math.sqrt(count)
    half = float(stdtrit(freedom, 0.975)) * error
    p = 2 * float(stdtr(freedom, -abs(mean) / error)) if error else float(not mean)
    detectable = float(ndtri(0.975) + ndtri(0.8)) * error
    return Difference(mean, mean - half, mean + half, p, detectable)


def permutation_p(differences: Float[np.ndarray, "n"]) -> float:
    """The p-value of the two-sided paired permutation test of a mean of 0 (Fisher 1935), for
    differences that are mostly 0 or far from normal.

    Estimated from 10,000 random assignments of signs and the observed one: at least 1 / 10,001.
    """
    differences = differences[differences != 0]
    count = len(differences)
    if not count:
        return 1.0
    random = np.random.default_rng(12345)
    extreme = 0
    remaining = _RESAMPLES
    least = abs(differences.sum()) - 1e-9 * np.abs(differences).sum()  # minus rounding errors
    while remaining:
        rows = min(remaining, max(1, _CHUNK // count))
        signs = random.integers(0, 2, (rows, count), np.int8)
        sums = 2 * (signs @ differences) - differences.sum()
        extreme += int((np.abs(sums) >= least).sum())
        remaining -= rows
    return (extreme + 1) / (_RESAMPLES + 1)


def mcnemar(wins: int, losses: int) -> float:
    """The p-value of McNemar's two-sided test of equally many wins and losses (McNemar 1947).

    Exact (the binomial distribution) for fewer than 25 of both, otherwise chi-square with the
    continuity correction of Edwards (1948).

    Args:
      wins, losses: numbers of examples that only the first, or only the second system has right.
    """
    count = wins + losses
    gap = abs(wins - losses)
    if not gap:
        return 1.0
    if count < _EXACT:
        tail = sum(math.comb(count, few) for few in range(min(wins, losses) + 1))
        return min(1.0, 2 * tail / 2**count)
    return math.erfc((gap - 1) / math.sqrt(2 * count))
