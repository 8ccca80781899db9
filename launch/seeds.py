"""Variation over random seeds."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Deviation(NamedTuple):
    """A standard deviation over seeds, and the degrees of freedom of its estimate."""

    value: float
    freedom: int


def pooled_deviation(groups: Sequence[Sequence[float]]) -> Deviation | None:
    """The standard deviation within groups, estimated from all groups together.

    Args:
      groups: the values of each setting, one for each seed.

    Returns: None if no group has two members.
    """
    means = [math.fsum(group) / len(group) for group in groups]
    squares = math.fsum((x - m) ** 2 for g, m in zip(groups, means, strict=True) for x in g)
    freedom = sum(len(group) - 1 for group in groups)
    return Deviation(math.sqrt(squares / freedom), freedom) if freedom else None


class AdditiveFit:
    """The two-way additive model of trials, row + seed + residual, by least squares (Scheffé 1959).

    Seeds that not all rows have need not be left out: the other rows tell how lucky they are.

    Args:
      present: the trials that exist.

    Attributes:
      freedom: degrees of freedom of the residuals.
    """

    def __init__(self, present: Bool[np.ndarray, "R S"]):
        self._present = present
        self._rows = len(present)
        row, seed = np.nonzero(present)
        self._design = np.hstack([np.eye(len(present))[row], np.eye(present.shape[1])[seed]])
        # NumPy's own limit, 1e-15, is below the rounding of singular values that are zero
        limit = max(self._design.shape) * np.finfo(float).eps
        self._inverse = np.linalg.pinv(self._design, rcond=limit)
        self.freedom = len(row) - int(np.linalg.matrix_rank(self._design))

    def variance(self, values: Float[np.ndarray, "n R S"]) -> Float[np.ndarray, "n"]:
        """The variance of the residuals of each of n draws of the trials; `freedom` is above 0."""
        seen = values[:, self._present]
        residuals = seen - seen @ self._inverse.T @ self._design.T
        return (residuals**2).sum(-1) / self.freedom

    def difference(
        self, values: Float[np.ndarray, "n R S"], first: int, second: int
    ) -> tuple[Float[np.ndarray, "n"], float]:
        """The difference of two rows that have a seed in common, and the square of its error as a
        share of the variance."""
        contrast = np.zeros(self._design.shape[1])
        contrast[[first, second]] = 1, -1
        weights = contrast @ self._inverse
        return values[:, self._present] @ weights, float(weights @ weights)


def interval_of_means(groups: Sequence[Sequence[float]]) -> list[float | None]:
    """Half the width of the 95 % interval of each group's mean (Student's t).

    The groups are settings, their members seeds. The standard deviation is pooled over all groups,
    as two or three members are too few to estimate one.

    Returns: None for every group if no group has two members.
    """
    from scipy.special import stdtrit  # slow to import

    deviation = pooled_deviation(groups)
    if deviation is None:
        return [None] * len(groups)
    half = float(stdtrit(deviation.freedom, 0.975)) * deviation.value
    return [half / math.sqrt(len(group)) for group in groups]
