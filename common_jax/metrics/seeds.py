"""How much of a difference is the seed's."""

import math
from collections.abc import Sequence


def interval_of_means(groups: Sequence[Sequence[float]]) -> list[float | None]:
    """Half the width of the 95 % interval of each group's mean (Student's t).

    The groups are settings, their members seeds. All share one standard deviation, since two or
    three members of one group say next to nothing of their own.

    Returns: None for every group while no group has two members.
    """
    from scipy.special import stdtrit  # slow to import

    means = [math.fsum(group) / len(group) for group in groups]
    squares = math.fsum((x - m) ** 2 for g, m in zip(groups, means, strict=True) for x in g)
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        return [None] * len(groups)
    half = float(stdtrit(freedom, 0.975)) * math.sqrt(squares / freedom)
    return [half / math.sqrt(len(group)) for group in groups]
