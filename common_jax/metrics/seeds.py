"""Variation over random seeds."""

import math
from collections.abc import Sequence


def interval_of_means(groups: Sequence[Sequence[float]]) -> list[float | None]:
    """Half the width of the 95 % interval of each group's mean (Student's t).

    The groups are settings, their members seeds. The standard deviation is pooled over all groups,
    as two or three members are too few to estimate one.

    Returns: None for every group if no group has two members.
    """
    from scipy.special import stdtrit  # slow to import

    means = [math.fsum(group) / len(group) for group in groups]
    squares = math.fsum((x - m) ** 2 for g, m in zip(groups, means, strict=True) for x in g)
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        return [None] * len(groups)
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(squares / freedom)
    return [half / math.sqrt(len(group)) for group in groups]
