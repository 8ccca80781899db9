"""Statistics of classification: intervals, tests, confusion matrices; pure functions of arrays."""

import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

_Z = 1.959963984540054  # the normal distribution's 97.5 % point


def wilson_interval(correct: int | float, total: int) -> tuple[float, float]:
    """The 95 % interval of a rate, within [0, 1] (Wilson 1927).

    The number of hits may have fractions (`right_ranked`), whose variance is at most that of hits.

    Raises:
      ValueError: for no trials, or more hits than trials.
    """
    _check(correct, total)
    rate = correct / total
    spread = _Z * _Z / total
    middle = (rate + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(rate * (1 - rate) / total + spread / (4 * total)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def equal_proportions(
    correct: int | float, total: int, other_correct: int | float, other_total: int
) -> float:
    """The p-value of the two-sided two-proportion z-test with pooled variance, without continuity
    correction (the papers' stars are p < .05). Hits as of `wilson_interval`.

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


def log_odds(
    logits: Float[np.ndarray, "n labels"], labels: Int[np.ndarray, "n"] | int
) -> Float[np.ndarray, "n"]:
    """log P - log(1 - P) of a label of each row, which differ where P is rounded to 1.

    Args:
      logits: log-probabilities up to a constant of each row.
    """
    chosen = np.arange(logits.shape[1]) == np.reshape(labels, (-1, 1))
    return _log_sum(logits, chosen) - _log_sum(logits, ~chosen)


def _log_sum(
    logits: Float[np.ndarray, "n labels"], members: Bool[np.ndarray, "#n labels"]
) -> Float[np.ndarray, "n"]:
    """The logarithm of the summed probabilities of each row's members."""
    return np.logaddexp.reduce(np.where(members, logits, -np.inf), axis=1)


def best_labels(logits: Float[np.ndarray, "n labels"]) -> Float[np.ndarray, "n labels"]:
    """The chance of each label to be the most probable one: 1/k for k equally probable ones."""
    best = logits == logits.max(axis=1, keepdims=True)
    return best / np.maximum(best.sum(axis=1, keepdims=True), 1)  # NaN has none


def nll(logits: Float[np.ndarray, "n labels"], labels: Int[np.ndarray, "n"]) -> float:
    """The mean cross-entropy in nats.

    Args:
      logits: as of `log_odds`.
    """
    chosen = logits[np.arange(len(labels)), labels]
    return float(np.mean(np.logaddexp.reduce(logits, axis=1) - chosen))


def calibration(
    confidences: Float[np.ndarray, "n"], right: Shaped[np.ndarray, "n"], bins: int = 10
) -> tuple[float, list[tuple[int, float, float]]]:
    """The expected calibration error, 0 to 1, and for each bin of equal width with predictions
    their number, mean confidence and rate of right ones (Guo et al. 2017, equation 3).

    Args:
      confidences: the probability of each prediction.
      right: whether it is right, or its chance to be.
    """
    numbers = np.minimum((confidences * bins).astype(int), bins - 1)
    members = [numbers == number for number in np.unique(numbers)]
    filled = [
        (int(in_bin.sum()), float(confidences[in_bin].mean()), float(right[in_bin].mean()))
        for in_bin in members
    ]
    error = sum(count * abs(confidence - rate) for count, confidence, rate in filled)
    return error / len(confidences), filled


def calibration_notes(
    confidences: Float[np.ndarray, "n"], right: Shaped[np.ndarray, "n"]
) -> dict[str, Any]:
    """`calibration` as the notes "calibration_error" and "calibration", in percent."""
    error, bins = calibration(confidences, right)
    return {
        "calibration_error": round(100 * error, 2),
        "calibration": [
            [count, *(round(100 * rate, 2) for rate in rates)] for count, *rates in bins
        ],
    }


def probabilities(logits: Float[np.ndarray, "n labels"]) -> Float[np.ndarray, "n labels"]:
    """The probabilities of each row's labels.

    Args:
      logits: as of `log_odds`.
    """
    return np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))


def right_ranked(
    scores: Float[np.ndarray, "n"], right: Bool[np.ndarray, "n"], questions: Int[np.ndarray, "n"]
) -> Float[np.ndarray, "q"]:
    """The chance that each question's first candidate is right, by question.

    It is 1 or 0, or k/n if n candidates have the largest score and k of them are right. NaN is
    never the largest.
    """
    _, groups = np.unique(questions, return_inverse=True)
    largest = np.full(groups.max() + 1, -np.inf)
    np.fmax.at(largest, groups, scores)
    first = scores == largest[groups]
    hits, candidates = (np.bincount(groups, of) for of in (first & right, first))
    return hits / np.maximum(candidates, 1)


def decided_by_ties(right: Float[np.ndarray, "n"]) -> float:
    """The share of examples that are neither right nor wrong, as candidates with equal scores
    differ."""
    return float(((right > 0) & (right < 1)).mean())


def confusion(
    gold: Int[np.ndarray, "n"], chances: Float[np.ndarray, "n labels"]
) -> Float[np.ndarray, "labels labels"]:
    """The confusion matrix: counts by gold label (row) and predicted label (column).

    Args:
      chances: of each label to be the predicted one (`best_labels`).
    """
    return np.stack([chances[gold == label].sum(axis=0) for label in range(chances.shape[1])])


def f1_by_label(confusion: Float[np.ndarray, "labels labels"]) -> Float[np.ndarray, "labels"]:
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
    right: Shaped[np.ndarray, "n"], lengths: Int[np.ndarray, "n"], parts: int = 10
) -> list[tuple[int, int, float]]:
    """The shortest length, longest length and accuracy, 0 to 1, of each of `members_by_length` (Yin
    & Schütze 2017, Figure 2)."""
    members = members_by_length(lengths, parts)
    return [(int(lengths[m].min()), int(lengths[m].max()), float(right[m].mean())) for m in members]


def count_of(sum_of_chances: float) -> int | float:
    """A number of examples, with six digits of its fraction if it has any."""
    count = round(sum_of_chances, 6)
    return int(count) if count.is_integer() else count


def _check(correct: int | float, total: int) -> None:
    if not 0 <= correct <= total or not total:
        raise ValueError(f"{correct} of {total}: needs 0 <= correct <= total and total > 0")
