"""SQuAD's and TriviaQA's metrics by hand and by brute force, and the best spans of an enumeration.

On published predictions with their scores in tests/launch/test_qanet.py.
"""

import functools
import itertools

import jax
import jax.export
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from common_jax.masks import MASKED
from common_jax.metrics.classification import wilson_interval
from qanet_jax import metrics
from qanet_jax import triviaqa_metrics as trivia
from qanet_jax.metrics import f1, normalize_answer, score, scores
from qanet_jax.task import best_spans

# Few values, so that spans often tie; MASKED is what the model gives to padding.
LOGITS = st.sampled_from(np.array([-2, -1, 0, 1, 2, MASKED], np.float32).tolist())
compiled = functools.cache(
    lambda length, count: jax.jit(functools.partial(best_spans, length=length, count=count))
)


def every_span(start, end, length):
    """(score, first, last) in float32, best first; equal scores are ordered by start, then by
    end."""
    size = len(start)
    spans = [(start[s] + end[e], s, e) for s in range(size) for e in range(s, size)]
    allowed = [(score, s, e) for score, s, e in spans if e - s < length]
    return sorted(allowed, key=lambda span: (-span[0], span[1], span[2]))


@pytest.mark.parametrize("size,length", [(1, 1), (1, 4), (5, 1), (5, 3), (4, 9)])
@pytest.mark.parametrize("count", [1, 3, 100])
def test_the_best_of_all_spans(size, length, count):
    @settings(max_examples=50)
    @given(logits=hnp.arrays(np.float32, (2, 2, size), elements=LOGITS))
    def check(logits):
        start, end = logits
        first, last, score = map(np.asarray, compiled(length, count)(start, end))
        for row in range(2):
            want = every_span(start[row], end[row], length)[:count]
            assert list(zip(score[row], first[row], last[row], strict=True)) == want

    check()


@pytest.mark.parametrize("length,count", [(1, 2), (3, 4), (9, 100)])
def test_an_exports_spans_are_the_same_behind_which_nothing_fits(length, count):
    logits = jax.ShapeDtypeStruct(jax.export.symbolic_shape("B, N"), np.float32)
    exported = jax.export.export(compiled(length, count))(logits, logits)
    for size in (1, 5):
        start, end = np.random.default_rng(size).integers(-3, 3, (2, 2, size)).astype(np.float32)
        first, last, score = map(np.asarray, exported.call(start, end))
        assert score.shape == (2, count)
        for row in range(2):
            want = every_span(start[row], end[row], length)[:count]
            actual = list(zip(score[row], first[row], last[row], strict=True))
            assert actual[: len(want)] == want
            assert (last[row][len(want) :] >= size).all()


@pytest.mark.parametrize(
    ("normalize", "text", "normalized"),
    [
        (normalize_answer, "The  Cat's\tMeow!", "cats meow"),
        (normalize_answer, "a an THE", ""),
        (normalize_answer, "the-end", "theend"),  # punctuation goes before articles do
        (normalize_answer, "A.N. Other", "other"),
        (normalize_answer, "theatre an' anthem", "theatre anthem"),
        (normalize_answer, "“An 1,000 $ É”", "“ 1000 é”"),  # only ASCII punctuation
        (normalize_answer, "the_a", "thea"),
        (normalize_answer, "", ""),
        (trivia.normalize_answer, "The_Great  Gatsby", "great gatsby"),
        (trivia.normalize_answer, "mid-air", "mid air"),
        (trivia.normalize_answer, "Rock 'n' Roll", "rock n roll"),
        (trivia.normalize_answer, "the-end", "end"),  # articles that punctuation hid go too
        (trivia.normalize_answer, "O‘Neill’s ´x` “y”", "o neill s x “y”"),
        (trivia.normalize_answer, "a_b", "b"),
        (trivia.normalize_answer, "!?", ""),
        (trivia.normalize_answer, "拳闘 É", "拳闘 é"),
    ],
)
def test_normalized(normalize, text, normalized):
    assert normalize(text) == normalized


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


@pytest.mark.parametrize(
    ("function", "nothing", "without_golds"),
    [(score, {}, {"1": []}), (metrics.score_adversarial, {}, {"1": []}), (trivia.score, [], [])],
)
def test_nothing_to_score(function, nothing, without_golds):
    with pytest.raises(ValueError, match="no questions"):
        function({"1": "one"}, nothing)
    with pytest.raises(ValueError):
        function({"1": "one"}, without_golds)


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
    assert metrics.score_adversarial(predictions, golds) == {
        #                           p  q  r  s  t
        "exact_match": 20 * (1 + 0 + 1 + 0 + 0),
        "f1": 20 * (1 + 0 + 1 + 0 + 1),
        "exact_match_worst": 20 * (0 + 0 + 1 + 0 + 1),
        "f1_worst": 20 * (0 + 0 + 1 + 0 + 1),
    }


UUID = "0e6e0e5c-9c5e-4b5f-8f0e-5a3a7c1d2b9a"
ORIGINALS = [  # by id
    {"dev-1": "dev-1", "dev-1-adv0": "dev-1", "dev-2": "dev-2", "dev-3": "dev-3"},
    {f"{UUID}-high": UUID, UUID: UUID, f"{UUID[:-1]}b": f"{UUID[:-1]}b"},
    {"56be4d": "56be4d", "56be4d-high-conf": "56be4d", "56be4d-high-conf-turk0": "56be4d"},
    {"1-a": "1", "1-b": "1", "2": "2"},  # without its original
]


@pytest.mark.parametrize("expected", ORIGINALS)
def test_originals_of_questions(expected):
    assert metrics.originals([*expected]) == expected
    golds = {key: ["red"] for key in expected}
    wrong = next(key for key, of in expected.items() if key != of)
    predictions = {key: "blue" if key == wrong else "red" for key in golds}
    count = len({*expected.values()})
    scored = metrics.score_adversarial(predictions, golds)
    assert scored == dict.fromkeys(scored, 100 * (count - 1) / count)


@pytest.mark.parametrize(
    ("kind", "of", "expected"),
    [
        (metrics.question_type, "What is it?", "what"),
        (metrics.question_type, "In WHICH year, and where?", "which"),
        (metrics.question_type, "To whom was it sold?", "who"),
        (metrics.question_type, "How many people live there?", "how many"),
        (metrics.question_type, "For how much was it sold?", "how many"),
        (metrics.question_type, "How did it begin?", "how"),
        (metrics.question_type, "Name the somewhat taller whatnot.", "other"),
        (metrics.answer_length, ["Rome"], "1"),
        (metrics.answer_length, ["in the city of Rome", "the city"], "2"),
        (metrics.answer_length, ["a b c d e"], "4-5"),
        (metrics.answer_length, ["a b c d e f"], "6-9"),
        (metrics.answer_length, ["a b c d e f g h i j"], "10+"),
    ],
)
def test_kinds_of_questions_and_lengths_of_answers(kind, of, expected):
    assert kind(of) == expected


GOLDS = {str(n): [f"red {n}", "cat"] for n in range(40)}
ANSWERS = {str(n): "cat" if n % 3 == 0 else f"blue {n}" for n in range(39)}


def test_kinds_add_up_to_the_score_of_all():
    kinds = {key: "odd" if int(key) % 2 else "even" for key in GOLDS}
    by_type = metrics.by_kind(scores(ANSWERS, GOLDS), kinds)
    for parity, kind in enumerate(("even", "odd")):
        expected = score(ANSWERS, {key: GOLDS[key] for key in GOLDS if int(key) % 2 == parity})
        assert by_type[kind] == [20, round(expected["exact_match"], 2), round(expected["f1"], 2)]
    kinds = dict.fromkeys(GOLDS, "rare") | {"1": "x"}
    assert list(metrics.by_kind(scores(ANSWERS, GOLDS), kinds)) == ["rare", "x"]


def test_intervals_are_wilsons_and_those_of_a_bootstrap():
    each = [*scores(ANSWERS, GOLDS).values()] * 10
    values = np.array(each, float) * 100
    means = values[np.random.default_rng(0).integers(0, 400, (10_000, 400))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    bounds = metrics.intervals(each)
    assert np.array([*bounds.values()]) == pytest.approx(np.stack([low, high], axis=1), abs=0.5)
    right = sum(exact for exact, _ in each)
    assert bounds["exact_match"] == [round(100 * end, 2) for end in wilson_interval(right, 400)]
    all_right = [round(100 * end, 2) for end in wilson_interval(9, 9)]
    assert metrics.intervals([(True, 1.0)] * 9) == {"exact_match": all_right, "f1": all_right}


# TriviaQA.


def test_golds_are_names_and_what_people_wrote():
    answer = {"NormalizedAliases": ["sunset blvd"], "Aliases": ["Sunset Blvd"]}
    assert trivia.golds(answer) == ["sunset blvd"]
    answer["HumanAnswers"] = ["The Sunset-Boulevard!"]
    assert trivia.golds(answer) == ["sunset blvd", "sunset boulevard"]


TIED = [("y", 0.25), ("Y", 0.25), ("x", 0.5), ("z", 0.1), ("z", 0.2), ("z", 0.2)]


@pytest.mark.parametrize(
    ("answers", "expected", "confidence"),
    [
        ([("Paris", 0.4), ("the London", 0.3), ("LONDON!", 0.31), ("Rome", 0.5)], "LONDON!", 0.31),
        ([("Paris", 0.4)], "Paris", 0.4),
        (TIED, "x", 0.5),  # in the order of the alphabet, not of the documents
        ([answer for answer in TIED if answer[0] != "x"], "Y", 0.25),
        ([("the", 0.9), ("x", 0.1)], "the", 0.9),
        ([], "", 0),
    ],
)
def test_confidences_of_equal_normalised_answers_add_up(answers, expected, confidence):
    """A selected answer has its own: not that of one that is more confident in one document and has
    fewer votes."""
    assert trivia.aggregate(answers) == trivia.aggregate(answers[::-1]) == expected
    assert trivia.selected(answers) == (expected, confidence)


def question(name: str, *names: str, verified: bool | None = None) -> dict:
    part = {} if verified is None else {"QuestionPartOfVerifiedEval": verified}
    return {"QuestionId": name, "Answer": {"NormalizedAliases": list(names)}, **part}


def test_full_and_verified():
    questions = [
        question("1", "red", verified=True),
        question("2", "red cat", verified=True),
        question("3", "red", verified=False),
        question("4", "red"),
    ]
    predictions = {"1": "Red", "2": "cat", "3": "x", "5": "red"}
    assert trivia.score(predictions, questions) == pytest.approx(
        {
            "exact_match": 25,
            "f1": 100 * (1 + 2 / 3) / 4,
            "verified_exact_match": 50,
            "verified_f1": 100 * (1 + 2 / 3) / 2,
        }
    )
    assert trivia.score(predictions, questions[2:]) == {"exact_match": 0, "f1": 0}
