"""Comparing evaluated runs."""

from common_jax.compare.comparison import Comparison, IncomparableError, Paired, comparison_of
from common_jax.compare.page import report
from common_jax.compare.runs import SEED, Run, read_notes, read_runs

__all__ = [
    "SEED",
    "Comparison",
    "IncomparableError",
    "Paired",
    "Run",
    "comparison_of",
    "read_notes",
    "read_runs",
    "report",
]
