"""Variation over random seeds."""

import math
from collections.abc import Sequence
from typing import NamedTuple


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
