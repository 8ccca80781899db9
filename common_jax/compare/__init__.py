"""Comparing evaluated runs."""

from common_jax.compare.comparison import (
    Comparison,
    Example,
    IncomparableError,
    Paired,
    comparison_of,
)
from common_jax.compare.examples import differing
from common_jax.compare.page import learning_curves, report
from common_jax.compare.runs import Run, read_notes, read_runs

__all__ = [
    "Comparison",
    "Example",
    "IncomparableError",
    "Paired",
    "Run",
    "comparison_of",
    "differing",
    "learning_curves",
    "read_notes",
    "read_runs",
    "report",
]
