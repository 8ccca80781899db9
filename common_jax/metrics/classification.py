"""Statistics of classification: intervals, tests, confusion matrices; pure functions of arrays."""

import math

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

_Z = 1.959963984540054  # the normal distribution's 97.5 % point


def wilson_interval(correct: int | float, total: int) -> tuple[float, float]:
    """The 95 % interval of a rate, within [0, 1] (Wilson 1927).

    Raises:
      ValueError: for no trials, or more hits than trials.
    """
    _check(correct, total)
    rate, spread = correct / total, _Z * _Z / total
    middle = (rate + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(rate * (1 - rate) / total + spread / (4 * total)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def equal_proportions(correct: int, total: int, other_correct: int, other_total: int) -> float:
    """The p-value of the two-sided two-proportion z-test with pooled variance, without continuity
    correction (the papers' stars are p < .05).

    Raises:
      ValueError: as `wilson_interval`.
    """
    _check(correct, total)
    _check(other_correct, other_total)
    pooled = (correct + other_correct) / (total + other_total)
    variance = pooled * (1 - pooled) * (1 / total + 1 / other_total)
    if not variance:
        return 1.0
    z = (correct / total - other_correct / other_total) / math.sqrt(variance)
    return math.erfc(abs(z) / math.sqrt(2))


def confusion(
    gold: Int[np.ndarray, "n"], predicted: Int[np.ndarray, "n"], labels: int
) -> Int[np.ndarray, "labels labels"]:
    """The confusion matrix: counts by gold label (row) and predicted label (column)."""
    return np.bincount(gold * labels + predicted, minlength=labels * labels).reshape(labels, labels)


def f1_by_label(confusion: Int[np.ndarray, "labels labels"]) -> Float[np.ndarray, "labels"]:
    """The F1 of each label, 0 to 1; NaN for a label that is neither gold nor predicted."""
    totals = confusion.sum(axis=0) + confusion.sum(axis=1)
    with np.errstate(invalid="ignore"):
        return 2 * np.diagonal(confusion) / totals


def members_by_length(
    lengths: Shaped[np.ndarray, "n"], parts: int = 10
) -> list[Int[np.ndarray, "_"]]:
    """The indices of the examples, divided by length into at most `parts` equal parts."""
    order = np.argsort(lengths, kind="stable")
    return [part for part in np.array_split(order, parts) if len(part)]


def by_length(
    right: Bool[np.ndarray, "n"], lengths: Int[np.ndarray, "n"], parts: int = 10
) -> list[tuple[int, int, float]]:
    """The shortest length, longest length and accuracy, 0 to 1, of each of `members_by_length` (Yin
    & Schütze 2017, Figure 2)."""
    members = members_by_length(lengths, parts)
    return [(int(lengths[m].min()), int(lengths[m].max()), float(right[m].mean())) for m in members]


def first_ranked(
    scores: Float[np.ndarray, "n"], questions: Int[np.ndarray, "n"]
) -> Int[np.ndarray, "q"]:
    """The index of each question's largest score, the first of equal ones; by question."""
    order = np.lexsort((-scores, questions))  # stable
    _, first = np.unique(questions[order], return_index=True)
    return order[first]


def _check(correct: int | float, total: int) -> None:
    if not 0 <= correct <= total or not total:
        raise ValueError(f"{correct} of {total}: needs 0 <= correct <= total and total > 0")
