"""Comparison of answers: paired tests, and scores by kind of question."""

import itertools
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from common_jax.compare import IncomparableError, Run
from common_jax.errors import UserError
from common_jax.text.squad import Answer, Question, Squad
from common_jax.training.run_writer import RunWriter
from common_jax.training.task import Scores
from qanet_jax.compare import SpanEvaluation

TYPES = {"what": [6, 50.0, 60.0], "who": [2, 0.0, 12.5]}
BY_LENGTH = {"10+": [1, 0.0, 20.0], "1": [4, 75.0, 75.0], "4-5": [3, 10.0, 15.0]}
F1 = {"a": np.array([0, 0.5, 1, 0.2, 0, 1, 0.4, 0]), "b": np.array([1, 1, 1, 0, 0.4, 1, 0.8, 0.5])}
EXACT = {"a": F1["a"] == 1, "b": F1["b"] == 1}


def evaluation(run):
    return SpanEvaluation(run, "dev")


def sections_of(runs):
    baseline, *others = map(evaluation, runs)
    return baseline.sections(others)


@pytest.fixture
def as_run(tmp_path):
    def make(label, ids="01234567", lengths=(30,) * 8, results=True, **notes):
        """
        Args:
          results: whether the results of the questions are written.
        """
        each = {"length": np.array(lengths), "exact_match": EXACT[label], "f1": F1[label]}
        files = {"json": json.dumps(dict.fromkeys(ids, "x"))}
        workdir = RunWriter(tmp_path / label)
        workdir.path.mkdir()
        workdir.write_scores("dev", Scores({}, notes, files, [], each if results else {}))
        return Run(label, workdir)

    return make


def by_enumeration(differences):
    """p of the permutation test, by enumerating all signs."""
    signs = np.array([*itertools.product((1, -1), repeat=len(differences))])
    sums = np.abs(signs @ differences)
    return (sums >= sums[0] - 1e-9).mean()


def test_differences_of_questions_are_tested_by_permutation(as_run):
    numbers = evaluation(as_run("b")).paired(evaluation(as_run("a"))).numbers
    for name, scores in (("exact_match", EXACT), ("f1", F1)):
        differences = 100 * (scores["b"].astype(float) - scores["a"])
        assert numbers[f"{name}_difference"] == pytest.approx(differences.mean())
        half = 2.364624 * differences.std(ddof=1) / 8**0.5  # Student's t of 7 degrees of freedom
        ends = [numbers[f"{name}_difference_{end}"] for end in ("low", "high")]
        expected = (differences.mean() - half, differences.mean() + half)
        assert ends == pytest.approx(expected, rel=1e-5)
        p = by_enumeration(differences)
        assert numbers[f"p_{name}"] == pytest.approx(p, abs=0.02) and 0.02 < p < 0.98


def test_the_report_has_the_numbers_of_the_paired_tests(as_run):
    runs = [as_run("a"), as_run("b")]
    numbers = evaluation(runs[1]).paired(evaluation(runs[0])).numbers
    (section,) = sections_of(runs)
    (table,) = section.elements
    first, second = (dict(zip(table.head, row, strict=True)) for row in table.rows)
    assert first["f1 gap"] is first["f1 p"] is None
    gap, low, high = (numbers[f"f1_difference{end}"] for end in ("", "_low", "_high"))
    assert second["f1 gap"] == f"{gap:+.2f} ({low:+.2f} to {high:+.2f})"
    assert second["exact_match p"] == f"{numbers['p_exact_match']:.4f}"


@pytest.mark.parametrize("other", [{"ids": "01234568"}, {"lengths": range(8)}])
def test_runs_of_other_questions_are_not_tested(as_run, other):
    a, b = as_run("a"), as_run("b", **other)
    message = f"{a.workdir.path}: its dev differs from that of {b.workdir.path}"
    with pytest.raises(IncomparableError) as error:
        evaluation(b).paired(evaluation(a))
    assert str(error.value) == message
    (section,) = sections_of([a, b])
    assert section.elements[1:] == [message]


def test_each_kind_has_its_scores_in_their_order(as_run):
    better = {"who": [2, 1.0, 2.0], "what": [6, 60.0, 70.0]}
    runs = [
        as_run("a", by_question_type=TYPES, by_answer_length=BY_LENGTH),
        as_run("b", by_question_type=better),
    ]
    _, types, lengths = sections_of(runs)
    chart, table = types.elements
    assert [(s.name, s.x, s.y) for s in chart.series] == [
        ("a", ["what", "who"], [60.0, 12.5]),
        ("b", ["what", "who"], [70.0, 2.0]),
    ]
    assert table.rows == [
        ["what", 6, "50.00 / 60.00", "60.00 / 70.00"],
        ["who", 2, "0.00 / 12.50", "1.00 / 2.00"],
    ]
    chart, table = lengths.elements
    assert chart.series[0].x == ["1", "4-5", "10+"]
    assert [row[0] for row in table.rows] == ["1", "4-5", "10+"]


def test_runs_of_other_questions_are_not_compared(as_run):
    runs = [as_run("a", by_question_type=TYPES), as_run("b", by_question_type={"why": [8, 1, 2]})]
    _, types = sections_of(runs)
    chart, _, note = types.elements
    assert [series.name for series in chart.series] == ["a"]
    assert note == "Not compared, due to other questions: b."


def test_a_run_alone_without_kinds_has_nothing_to_show(as_run):
    assert sections_of([as_run("a", results=False)]) == []


CONTEXT = "Ada lives in Rome. Ben, her brother, is a painter in Turin."
SQUAD = Squad(
    [CONTEXT],
    [
        Question("0", "Who lives in Rome?", 0, (Answer("Ada", 0),)),
        Question("1", "Where is Ben?", 0, (Answer("Turin", 53), Answer("in Turin", 50))),
    ],
)


def with_answers(as_run, answers, f1):
    run = as_run("a", f1=f1)
    (run.workdir.path / "eval" / "dev.predictions.json").write_text(json.dumps(answers))
    run.__dict__["corpus"] = SimpleNamespace(
        golds=lambda _: None, texts=lambda _: SQUAD, vocabulary=SimpleNamespace(rule="english")
    )
    return run


def test_examples_have_the_f1_of_their_answers(as_run):
    run = with_answers(as_run, {"0": "Ben", "1": "Turin Rome"}, f1=50 * 2 / 3)
    first, second = evaluation(run).predictions
    assert (first.score, second.score) == (0, pytest.approx(100 * 2 / 3))
    assert json.loads(second.line) == {"context": CONTEXT, "question": "Where is Ben?"}
    assert CONTEXT[slice(*second.span)] == second.reference == "Turin"
    assert second.text == f"Where is Ben? {CONTEXT}"


@pytest.mark.parametrize("answers", [{"0": "Ada", "2": "Turin"}, {"0": "Ada", "1": "Rome"}])
def test_answers_of_another_run_are_rejected(as_run, answers):
    run = with_answers(as_run, answers, f1=100.0)
    with pytest.raises(UserError, match=r"dev\.predictions\.json: not the answers of its score"):
        _ = evaluation(run).predictions


def test_attention_is_drawn_around_the_answer():
    """The answer "painter" is the context's word 12, the reference "Turin" word 14."""
    context = [text for text in re.findall(r"\w+|[.,]", CONTEXT)]
    weights = np.random.default_rng(0).random((len(context), 3)).tolist()
    words, layers = [context, ["Where", "?", "x"]], [[{"weights": weights}]]
    explained = {"answer": "painter", "start": 42, "end": 49, "words": words, "layers": layers}
    line = json.dumps({"context": CONTEXT, "question": "Where? x"})
    _, (picture,) = SpanEvaluation.pictured(json.dumps(explained), "a", line, (53, 58))
    top = 12 - 8
    assert picture.rows == context[top:] and picture.panels[0].values == weights[top:]
    answer, reference = picture.panels[0].outlines
    assert (answer.name, answer.top, [*answer.spans]) == ("answer", 12 - top, [(0, 2)])
    assert (reference.name, reference.top) == ("reference", 14 - top)
    _, (same,) = SpanEvaluation.pictured(json.dumps(explained), "a", line, (42, 49))
    assert [one.name for one in same.panels[0].outlines] == ["answer"]
    del explained["layers"]  # a reader without such attention
    assert SpanEvaluation.pictured(json.dumps(explained), "a", line) == ("painter", [])
