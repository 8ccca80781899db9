"""Scores of published predictions, and TriviaQA's metrics on the aliases of real questions."""

import gzip
import json

import pytest

from qanet_jax import triviaqa_metrics as trivia
from tests.launch.commands import squad_scores
from tests.qanet_jax.test_metrics import question
from tests.real import needs_real_data, real_data

PUBLISHED = "squad/dev-predictions-match-lstm-ensemble.json.gz"


@needs_real_data
def test_spans_of_text_are_right_answers():
    path = real_data("triviaqa_short/wiki_dev_7993.jsonl.gz")
    records = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    questions, predictions = [], {}
    for record in records:
        questions.append(question(record["id"], *map(trivia.normalize_answer, record["aliases"])))
        if record["span"]:
            start, end = record["span"]
            predictions[record["id"]] = record["context"][start:end]
    assert (len(questions), len(predictions)) == (7983, 4719)
    expected = 100 * 4719 / 7983
    assert trivia.score(predictions, questions) == pytest.approx(
        {"exact_match": expected, "f1": expected}
    )


@needs_real_data
def test_a_published_systems_predictions_have_its_scores(capsys):
    found = squad_scores(
        capsys, real_data(PUBLISHED), "--data", real_data("squad/dev-v1.1.json.gz")
    )
    assert (found.pop("questions"), found.pop("unanswered")) == (10_570, 0)
    assert {k: round(v, 3) for k, v in found.items()} == {"exact_match": 67.635, "f1": 76.756}


@needs_real_data
def test_adversarial_squad_is_scored_by_both_rules(tmp_path, capsys):
    """A system that answers all variants right has the score of the originals by both rules."""
    data = real_data("squad_adversarial/sample1k-HCVerifyAll.json.gz")
    published = json.loads(gzip.decompress(real_data(PUBLISHED).read_bytes()))
    articles = json.loads(gzip.decompress(data.read_bytes()))["data"]
    ids = [q["id"] for a in articles for p in a["paragraphs"] for q in p["qas"]]
    answers = {key: published[key.split("-")[0]] for key in ids}
    predictions = tmp_path / "predictions.json"
    predictions.write_text(json.dumps(answers))
    found = squad_scores(capsys, predictions, "--data", data)
    assert (found["questions"], found["unanswered"]) == (3560, 0)
    assert 50 < found["exact_match"] == found["exact_match_worst"] < found["f1"]
    wrong = {key: "x" for key in ids if key.endswith("-turk0")}
    predictions.write_text(json.dumps(answers | wrong))
    fooled = squad_scores(capsys, predictions, "--data", data)
    assert fooled["f1"] < found["f1"] - 20
