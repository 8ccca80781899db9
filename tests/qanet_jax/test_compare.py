"""Answers beside each other, by kind of question."""

from types import SimpleNamespace

from common_jax.io.json_files import Node

TYPES = {"what": [6, 50.0, 60.0], "who": [2, 0.0, 12.5]}
LENGTHS = {"10+": [1, 0.0, 20.0], "1": [4, 75.0, 75.0], "4-5": [3, 10.0, 15.0]}


def as_run(label, **notes):
    scored = Node(notes, "dev.json")
    return SimpleNamespace(label=label, workdir=SimpleNamespace(read_scored=lambda split: scored))


def test_each_kind_has_its_scores_in_their_order():
    better = {"who": [2, 1.0, 2.0], "what": [6, 60.0, 70.0]}
    runs = [
        as_run("a", by_question_type=TYPES, by_answer_length=LENGTHS),
        as_run("b", by_question_type=better),
    ]
    types, lengths = SpanComparison.compare(runs, "dev")
    chart, table = types.parts
    assert [(s.name, s.x, s.y) for s in chart.series] == [
        ("a", ["what", "who"], [60.0, 12.5]),
        ("b", ["what", "who"], [70.0, 2.0]),
    ]
    assert table.rows == [
        ["what", 6, "50.00 / 60.00", "60.00 / 70.00"],
        ["who", 2, "0.00 / 12.50", "1.00 / 2.00"],
    ]
    chart, table = lengths.parts
    assert chart.series[0].x == ["1", "4-5", "10+"]
    assert [row[0] for row in table.rows] == ["1", "4-5", "10+"]


def test_runs_of_other_questions_are_not_compared():
    runs = [as_run("a", by_question_type=TYPES), as_run("b", by_question_type={"why": [8, 1, 2]})]
    (types,) = SpanComparison.compare(runs, "dev")
    chart, _, said = types.parts
    assert [series.name for series in chart.series] == ["a"]
    assert said == "Not compared, having other questions: b."


def test_runs_scored_without_kinds_are_left_out():
    assert SpanComparison.compare([as_run("old")], "dev") == []
