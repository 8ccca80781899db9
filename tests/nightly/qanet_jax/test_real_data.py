"""TriviaQA's metrics on the aliases of real questions."""

import gzip
import json

import pytest

from qanet_jax import triviaqa_metrics as trivia
from tests.qanet_jax.test_metrics import question
from tests.real import needs_real_data, real_data


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
