"""Comparison of answers: paired tests, and scores by kind of question."""

import itertools
import json

import numpy as np
import pytest

from common_jax.compare import IncomparableError, Run
from common_jax.training.task import Scores
from common_jax.training.workdir import Workdir
from qanet_jax.compare import SpanComparison

TYPES = {"what": [6, 50.0, 60.0], "who": [2, 0.0, 12.5]}
BY_LENGTH = {"10+": [1, 0.0, 20.0], "1": [4, 75.0, 75.0], "4-5": [3, 10.0, 15.0]}
F1 = {"a": np.array([0, 0.5, 1, 0.2, 0, 1, 0.4, 0]), "b": np.array([1, 1, 1, 0, 0.4, 1, 0.8, 0.5])}
EXACT = {"a": F1["a"] == 1, "b": F1["b"] == 1}


@pytest.fixture
def as_run(tmp_path):
    def make(label, ids="01234567", lengths=(30,) * 8, results=True, **notes):
        """
        Args:
          results: whether the results of the questions are written.
        """
        each = {"length": np.array(lengths), "exact_match": EXACT[label], "f1": F1[label]}
        files = {".predictions.json": json.dumps(dict.fromkeys(ids, "x"))}
        workdir = Workdir(tmp_path / label)
        workdir.path.mkdir()
        workdir.write_scored("dev", Scores({}, notes, files, [], each if results else {}))
        return Run(label, workdir)

    return make


def by_enumeration(differences):
    """p of the permutation test, by enumerating all signs."""
    signs = np.array([*itertools.product((1, -1), repeat=len(differences))])
    sums = np.abs(signs @ differences)
    return (sums >= sums[0] - 1e-9).mean()


def test_differences_of_questions_are_tested_by_permutation(as_run):
    numbers = SpanComparison.paired(as_run("b"), as_run("a"), "dev").numbers
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
    numbers = SpanComparison.paired(runs[1], runs[0], "dev").numbers
    (section,) = SpanComparison.compare(runs, "dev")
    (table,) = section.parts
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
        SpanComparison.paired(b, a, "dev")
    assert str(error.value) == message
    (section,) = SpanComparison.compare([a, b], "dev")
    assert section.parts[1:] == [message]


def test_each_kind_has_its_scores_in_their_order(as_run):
    better = {"who": [2, 1.0, 2.0], "what": [6, 60.0, 70.0]}
    runs = [
        as_run("a", by_question_type=TYPES, by_answer_length=BY_LENGTH),
        as_run("b", by_question_type=better),
    ]
    _, types, lengths = SpanComparison.compare(runs, "dev")
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


def test_runs_of_other_questions_are_not_compared(as_run):
    runs = [as_run("a", by_question_type=TYPES), as_run("b", by_question_type={"why": [8, 1, 2]})]
    _, types = SpanComparison.compare(runs, "dev")
    chart, _, note = types.parts
    assert [series.name for series in chart.series] == ["a"]
    assert note == "Not compared, due to other questions: b."


def test_a_run_alone_without_kinds_has_nothing_to_show(as_run):
    assert SpanComparison.compare([as_run("a", results=False)], "dev") == []
