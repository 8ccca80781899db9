"""TriviaQA's metrics against values by hand, and on the aliases of real questions."""

import gzip
import json

import pytest

from qanet_jax import metrics as spans
from qanet_jax.triviaqa_metrics import aggregate, golds, normalize_answer, score
from tests.real import needs_real_data, real_data


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The_Great  Gatsby", "great gatsby"),
        ("mid-air", "mid air"),
        ("Rock 'n' Roll", "rock n roll"),
        ("the-end", "end"),  # articles that punctuation hid go too
        ("O‘Neill’s ´x` “y”", "o neill s x “y”"),
        ("a_b", "b"),
        ("!?", ""),
        ("拳闘 É", "拳闘 é"),
    ],
)
def test_normalized(text, normalized):
    assert normalize_answer(text) == normalized


def test_golds_are_names_and_what_people_wrote():
    answer = {"NormalizedAliases": ["sunset blvd"], "Aliases": ["Sunset Blvd"]}
    assert golds(answer) == ["sunset blvd"]
    answer["HumanAnswers"] = ["The Sunset-Boulevard!"]
    assert golds(answer) == ["sunset blvd", "sunset boulevard"]


def test_exact_match_and_f1_by_hand():
    names = ["sunset boulevard", "sunset blvd"]
    exact_match = lambda text, names: spans.exact_match(text, names, normalize_answer)
    f1 = lambda text, names: spans.f1(text, names, normalize_answer)
    assert exact_match("Sunset_Boulevard.", names)
    assert not exact_match("SunsetBoulevard", names)
    assert f1("the West Sunset Blvd", names) == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert f1("x", names) == 0


def test_confidences_of_equal_normalised_answers_add_up():
    answers = [("Paris", 0.4), ("the London", 0.3), ("LONDON!", 0.31), ("Rome", 0.5)]
    assert aggregate(answers) == "LONDON!"
    assert aggregate(answers[:1]) == "Paris"
    tied = [("y", 0.25), ("Y", 0.25), ("x", 0.5), ("z", 0.1), ("z", 0.2), ("z", 0.2)]
    for order in (tied, tied[::-1]):  # in the order of the alphabet, not of the documents
        assert aggregate(order) == "x"
        assert aggregate([answer for answer in order if answer[0] != "x"]) == "Y"
    assert aggregate([("the", 0.9), ("x", 0.1)]) == "the"
    assert aggregate([]) == ""


def _question(name: str, *names: str, verified: bool | None = None) -> dict:
    part = {} if verified is None else {"QuestionPartOfVerifiedEval": verified}
    return {"QuestionId": name, "Answer": {"NormalizedAliases": list(names)}, **part}


def test_full_and_verified():
    questions = [
        _question("1", "red", verified=True),
        _question("2", "red cat", verified=True),
        _question("3", "red", verified=False),
        _question("4", "red"),
    ]
    predictions = {"1": "Red", "2": "cat", "3": "x", "5": "red"}
    assert score(predictions, questions) == pytest.approx(
        {
            "exact_match": 25,
            "f1": 100 * (1 + 2 / 3) / 4,
            "verified_exact_match": 50,
            "verified_f1": 100 * (1 + 2 / 3) / 2,
        }
    )
    assert score(predictions, questions[2:]) == {"exact_match": 0, "f1": 0}
    with pytest.raises(ValueError, match="no questions"):
        score(predictions, [])


@needs_real_data
def test_spans_of_text_are_right_answers():
    path = real_data("triviaqa_short/wiki_dev_7993.jsonl.gz")
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    questions, predictions = [], {}
    for record in records:
        questions.append(_question(record["id"], *map(normalize_answer, record["aliases"])))
        if record["span"]:
            start, end = record["span"]
            predictions[record["id"]] = record["context"][start:end]
    assert (len(questions), len(predictions)) == (7983, 4719)
    expected = 100 * 4719 / 7983
    assert score(predictions, questions) == pytest.approx({"exact_match": expected, "f1": expected})
