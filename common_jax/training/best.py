"""Comparison of scores by one metric."""

import math
from collections.abc import Mapping
from typing import Any

FALLING = ("loss", "nll")  # metrics of which less is better


def comparable_score(metrics: Mapping[str, Any], name: str) -> float:
    """The metric `name`, negated if less is better; -inf for NaN or a missing one."""
    value = metrics.get(name, math.nan) * (-1 if name in FALLING else 1)
    return -math.inf if math.isnan(value) else value
