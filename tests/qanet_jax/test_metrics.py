"""SQuAD's metric by hand and by brute force.

On published predictions with their scores in tests/launch/test_qanet.py.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.metrics.classification import wilson_interval
from qanet_jax.metrics import (
    answer_length,
    by_kind,
    exact_match,
    f1,
    intervals,
    normalize_answer,
    question_type,
    score,
    score_adversarial,
    scores,
)


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The  Cat's\tMeow!", "cats meow"),
        ("a an THE", ""),
        ("the-end", "theend"),  # punctuation goes before articles do
        ("A.N. Other", "other"),
        ("theatre an' anthem", "theatre anthem"),
        ("“An 1,000 $ É”", "“ 1000 é”"),  # only ASCII punctuation
        ("the_a", "thea"),
        ("", ""),
    ],
)
def test_normalized(text, normalized):
    assert normalize_answer(text) == normalized


@pytest.mark.parametrize(
    ("prediction", "golds", "exact", "overlap"),
    [
        ("the Denver Broncos", ["Denver Broncos.", "Broncos"], True, 1),
        ("Denver", ["Denver Broncos", "Carolina"], False, 2 / 3),  # precision 1, recall 1/2
        ("big big cat", ["big cat cat cat"], False, 4 / 7),  # 2 in common; 3 and 4 words
        ("cat big", ["big cat"], False, 1),
        ("x", ["y", "z"], False, 0),
        ("", ["y"], False, 0),
        ("the", ["a"], True, 0),  # as published: without words there is no overlap
    ],
)
def test_by_hand(prediction, golds, exact, overlap):
    assert exact_match(prediction, golds) is exact
    assert f1(prediction, golds) == pytest.approx(overlap)


_WORDS = st.lists(st.sampled_from(["x", "y", "z", "the"]), max_size=4)


@given(_WORDS, st.lists(_WORDS, min_size=1, max_size=3))
def test_f1_is_the_best_pairing_of_words(prediction, golds):
    def best(one: list[str], other: list[str]) -> float:
        short, long = sorted((one, other), key=len)
        chosen = itertools.permutations(long, len(short))
        common = max(sum(a == b for a, b in zip(short, some, strict=True)) for some in chosen)
        precision, recall = (common / max(len(side), 1) for side in (one, other))
        return 2 * precision * recall / (precision + recall) if common else 0

    without_articles = [[word for word in words if word != "the"] for words in (prediction, *golds)]
    expected = max(best(without_articles[0], gold) for gold in without_articles[1:])
    assert f1(" ".join(prediction), [" ".join(gold) for gold in golds]) == pytest.approx(expected)


def test_score_is_over_all_questions():
    golds = {"1": ["one"], "2": ["two three"], "3": ["x"], "4": ["y"]}
    scores = score({"1": "One!", "2": "two", "3": "z", "other": "y"}, golds)
    assert scores == pytest.approx({"exact_match": 25, "f1": 100 * (1 + 2 / 3) / 4})
    assert score({}, golds) == {"exact_match": 0, "f1": 0}


def test_nothing_to_score():
    for function in (score, score_adversarial):
        with pytest.raises(ValueError, match="no questions"):
            function({"1": "one"}, {})
        with pytest.raises(ValueError):
            function({"1": "one"}, {"1": []})


def test_adversarial_by_hand():
    golds = {
        "p": ["red"],  # the original is the worst
        "p-0": ["red"],
        "q-high": ["red cat"],  # the variants are worse, and out of order
        "q": ["red cat"],
        "q-low-conf": ["red cat"],
        "r": ["red"],  # without variants
        "s-0": ["red"],  # without an original, one of two unanswered
        "s-1": ["red"],
        "t": ["red cat"],  # of equal F1 the first
        "t-0": ["red cat"],
        "t-1": ["red cat"],
    }
    predictions = dict.fromkeys(golds, "red") | {"p": "blue", "q": "red cat", "q-low-conf": "x"}
    predictions |= {"t": "red cat", "t-0": "cat red", "t-1": "red cat"}
    del predictions["s-1"]
    scores = score_adversarial(predictions, golds)
    #                                    p  q  r  s  t
    assert scores["exact_match"] == 20 * (1 + 0 + 1 + 0 + 0)
    assert scores["f1"] == 20 * (1 + 0 + 1 + 0 + 1)
    assert scores["exact_match_worst"] == 20 * (0 + 0 + 1 + 0 + 1)
    assert scores["f1_worst"] == 20 * (0 + 0 + 1 + 0 + 1)


@given(
    st.dictionaries(
        st.sampled_from(["a", "a-0", "a-1", "b", "b-0", "c"]),
        st.sampled_from(["red", "blue", "red cat dog", None]),
        min_size=1,
    )
)
def test_the_worst_is_no_better(answers):
    golds = {key: ["red cat"] for key in answers}
    predictions = {key: text for key, text in answers.items() if text is not None}
    scores = score_adversarial(predictions, golds)
    overlaps = {key: f1(predictions.get(key, ""), ["red cat"]) for key in golds}
    questions = {key[0] for key in golds}
    worst = [min(overlaps[key] for key in golds if key[0] == question) for question in questions]
    assert scores["f1_worst"] == pytest.approx(100 * sum(worst) / len(questions))
    assert scores["f1_worst"] <= scores["f1"] + 1e-9
    assert scores["exact_match_worst"] == scores["exact_match"] == 0


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is it?", "what"),
        ("In WHICH year, and where?", "which"),
        ("To whom was it sold?", "who"),
        ("How many people live there?", "how many"),
        ("For how much was it sold?", "how many"),
        ("How did it begin?", "how"),
        ("Name the somewhat taller whatnot.", "other"),
    ],
)
def test_types_of_questions(question, kind):
    assert question_type(question) == kind


@pytest.mark.parametrize(
    ("golds", "length"),
    [
        (["Rome"], "1"),
        (["in the city of Rome", "the city"], "2"),
        (["a b c d e"], "4-5"),
        (["a b c d e f"], "6-9"),
        ([" ".join("abcdefghij")], "10+"),
    ],
)
def test_lengths_of_answers(golds, length):
    assert answer_length(golds) == length


GOLDS = {str(n): [f"red {n}", "cat"] for n in range(40)}
ANSWERS = {str(n): "cat" if n % 3 == 0 else f"blue {n}" for n in range(39)}


def test_kinds_add_up_to_the_score_of_all():
    kinds = {key: "odd" if int(key) % 2 else "even" for key in GOLDS}
    by_type = by_kind(scores(ANSWERS, GOLDS), kinds)
    for parity, kind in enumerate(("even", "odd")):
        part = {key: GOLDS[key] for key in GOLDS if int(key) % 2 == parity}
        expected = score(ANSWERS, part)
        rounded = [round(expected[metric], 2) for metric in ("exact_match", "f1")]
        assert by_type[kind] == [20, *rounded]
    kinds = dict.fromkeys(GOLDS, "rare") | {"1": "x"}
    assert list(by_kind(scores(ANSWERS, GOLDS), kinds)) == ["rare", "x"]


def test_intervals_are_wilsons_and_those_of_a_bootstrap():
    each = [*scores(ANSWERS, GOLDS).values()] * 10
    values = np.array(each, float) * 100
    means = values[np.random.default_rng(0).integers(0, 400, (10_000, 400))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    bounds = intervals(each)
    assert np.array([*bounds.values()]) == pytest.approx(np.stack([low, high], axis=1), abs=0.5)
    right = sum(exact for exact, _ in each)
    assert bounds["exact_match"] == [round(100 * end, 2) for end in wilson_interval(right, 400)]
    all_right = [round(100 * end, 2) for end in wilson_interval(9, 9)]
    assert intervals([(True, 1.0)] * 9) == {"exact_match": all_right, "f1": all_right}
