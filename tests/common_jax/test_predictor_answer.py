"""Answers as objects, and as the lines that the commands print."""

import dataclasses
import json

import numpy as np
import pytest

from attconv_jax.predictor import AttentionMap, Label
from common_jax.predictor_answer import Answer
from csan_jax.predictor import Hypothesis, Translation
from qanet_jax.reading import PredictedSpan, SpanAnswer

MAPS = [[AttentionMap(None, 0, np.array([[0.25, 0.75]])), AttentionMap(1, 0, np.ones((1, 2)))]]


@pytest.mark.parametrize(
    "answer,line",
    [
        (Translation("Grüße \"an\" alle"), "Grüße \"an\" alle"),
        (Translation(""), ""),
        (
            Translation("ü", hypotheses=[Hypothesis("ü", -0.5), Hypothesis("u", -1.0)]),
            '{"translation": "ü", "hypotheses": [{"translation": "ü", "score": -0.5}, '
            '{"translation": "u", "score": -1.0}]}',
        ),
        (
            SpanAnswer(answer="a", start=0, end=1, probability=0.5, next=[]),
            '{"answer": "a", "start": 0, "end": 1, "probability": 0.5, "next": []}',
        ),
        (
            SpanAnswer(
                id=7, answer="a", start=0, end=1, probability=0.5,
                next=[PredictedSpan("b", 2, 3, 0.25)],
            ),
            '{"id": 7, "answer": "a", "start": 0, "end": 1, "probability": 0.5, "next": '
            '[{"answer": "b", "start": 2, "end": 3, "probability": 0.25}]}',
        ),
        (
            Label("no", {"no": 1.0}, 40.75),
            '{"label": "no", "probabilities": {"no": 1.0}, "score": 40.75}',
        ),
        (
            Label("no", {"no": 1.0}, 40.75, [["a", "b"], ["c"]], MAPS),
            '{"label": "no", "probabilities": {"no": 1.0}, "score": 40.75, '
            '"words": [["a", "b"], ["c"]], "layers": '
            '[[{"text": null, "context": 0, "weights": [[0.25, 0.75]]}, '
            '{"text": 1, "context": 0, "weights": [[1.0, 1.0]]}]]}',
        ),
    ],
)  # fmt: skip
def test_the_line_has_the_fields_that_an_answer_has(answer, line):
    assert answer.line == str(answer) == line
    assert json.loads(answer.json) == answer.to_dict()
    if line.startswith("{"):
        assert answer.json == line


def test_answers_with_the_same_fields_are_equal():
    assert Label("a", {"a": 1.0}, 9.5, None, MAPS) == Label("a", {"a": 1.0}, 9.5, None, MAPS)
    assert len({Translation("a"), Translation("a"), Translation("b")}) == 2
    assert Translation("a") != Sum("a") and Translation("a") != "a"


def test_the_plain_field_alone_is_the_line_only_of_its_class():
    assert Translation("a").json == '{"translation": "a"}'
    assert Sum("a").line == '{"translation": "a"}'


@dataclasses.dataclass(frozen=True, eq=False)
class Sum(Answer):
    translation: str
