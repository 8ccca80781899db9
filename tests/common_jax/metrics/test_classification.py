"""Rates, intervals and rankings against SciPy and brute force."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from common_jax.metrics import classification
from common_jax.metrics.classification import count_of, equal_proportions, log_odds, wilson_interval


@st.composite
def rates(draw):
    total = draw(st.integers(1, 5000))
    return draw(st.integers(0, total)), total


@given(rates())
def test_wilsons_interval_is_scipys(rate):
    expected = scipy.stats.binomtest(*rate).proportion_ci(0.95, method="wilson")
    assert wilson_interval(*rate) == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(rates(), rates())
def test_equal_proportions_are_a_chi_square_test(one, other):
    table = [[correct, total - correct] for correct, total in (one, other)]
    p = equal_proportions(*one, *other)
    assert p == pytest.approx(equal_proportions(*other, *one))
    if 0 in np.sum(table, axis=0):  # all are right, or all are wrong
        assert p == 1
    else:
        expected = scipy.stats.chi2_contingency(table, correction=False).pvalue
        assert p == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("counts", [(0, 0), (2, 1), (-1, 4)])
def test_rates_that_cannot_be(counts):
    with pytest.raises(ValueError, match=f"{counts[0]} of {counts[1]}"):
        wilson_interval(*counts)
    with pytest.raises(ValueError):
        equal_proportions(1, 2, *counts)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0]), st.booleans()), min_size=1
    ),
    st.randoms(),
)
def test_a_tie_counts_as_its_chance_in_any_order_of_rows(rows, random):
    shares = []
    for question in sorted({question for question, *_ in rows}):
        candidates = [row[1:] for row in rows if row[0] == question]
        best = max(score for score, _ in candidates)
        tied = [right for score, right in candidates if score == best]
        shares.append(sum(tied) / len(tied))
    for _ in range(2):
        questions, scores, right = (np.array(column) for column in zip(*rows, strict=True))
        ranked = classification.right_ranked(scores, right, questions)
        assert ranked.tolist() == shares
        random.shuffle(rows)
    assert classification.decided_by_ties(ranked) == np.mean([0 < share < 1 for share in shares])


def test_equally_probable_labels_share_an_example():
    logits = np.array([[2.0, 5, 5], [1, 1, 1], [0, 9, 3], [np.nan, 1, 2]])
    chances = classification.best_labels(logits)
    third = 1 / 3
    assert chances.tolist() == [[0, 0.5, 0.5], [third] * 3, [0, 1, 0], [0] * 3]
    expected = [[0, 0, 0], [0, 1.5, 0.5], [third] * 3]
    assert classification.confusion(np.array([1, 2, 1, 0]), chances).tolist() == expected
    assert [count_of(7.0), count_of(2 / 3), count_of(0.0)] == [7, 0.666667, 0]
    assert type(count_of(7.0)) is int


def test_log_odds_differ_where_probabilities_are_1():
    logits = np.array([[-20.5, 20.25], [-21.0, 20.25], [0, 0]])
    assert log_odds(logits, 1).tolist() == [40.75, 41.25, 0]
    assert log_odds(logits, np.array([0, 1, 0])).tolist() == [-40.75, 41.25, 0]
    logits = np.random.default_rng(0).normal(size=(9, 4))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    expected = np.log(probabilities[:, 2] / (1 - probabilities[:, 2]))
    assert log_odds(logits, 2) == pytest.approx(expected)


def test_calibration_is_the_weighted_gap_of_the_bins():
    """Guo et al. (2017), equation 3, bin by bin; 1.0 is in the last bin."""
    random = np.random.default_rng(0)
    confidences = np.append(random.uniform(0.3, 1, 200), [1.0, 0.1])
    right = random.random(202) < confidences
    error, bins = classification.calibration(confidences, right)
    expected = []
    for low in range(10):
        chosen = [
            at
            for at, value in enumerate(confidences)
            if low / 10 <= value < (low + 1) / 10 or (value == 1 and low == 9)
        ]
        if chosen:
            gap = sum(confidences[chosen]) / len(chosen) - sum(right[chosen]) / len(chosen)
            expected.append((len(chosen), abs(gap)))
    assert [count for count, *_ in bins] == [count for count, _ in expected]
    assert error == pytest.approx(sum(count * gap for count, gap in expected) / 202)
