"""Which of several scores by one metric is the best."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

FALLING = ("loss", "nll")  # metrics of which less is better

Scored = tuple[int, Mapping[str, Any] | None]  # a step and its metrics; None without a validation


def comparable_score(metrics: Mapping[str, Any], name: str) -> float:
    """The metric `name`, negated if less is better; -inf for NaN or a missing one."""
    value = metrics.get(name, math.nan) * (-1 if name in FALLING else 1)
    return -math.inf if math.isnan(value) else value


def best_step(scored: Iterable[Scored], name: str) -> int | None:
    """The step with the best metric `name`, of equal ones the earliest; None without metrics.

    Args:
      scored: in any order of the steps.
    """
    ranked = [
        (-comparable_score(metrics, name), step) for step, metrics in scored if metrics is not None
    ]
    return min(ranked)[1] if ranked else None
