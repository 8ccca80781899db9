"""Comparing evaluated runs."""

from common_jax.compare.evaluation import (
    Evaluation,
    IncomparableError,
    Paired,
    ScoredExample,
    evaluation_class,
    evaluation_of,
    notes_by_label,
    require_same_examples,
)
from common_jax.compare.runs import Run, read_runs

__all__ = [
    "Evaluation",
    "IncomparableError",
    "Paired",
    "Run",
    "ScoredExample",
    "evaluation_class",
    "evaluation_of",
    "notes_by_label",
    "read_runs",
    "require_same_examples",
]
