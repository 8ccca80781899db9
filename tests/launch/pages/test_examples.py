"""The examples of a report where runs differ most."""

import numpy as np
import pytest

from common_jax.compare import Evaluation, Run, ScoredExample
from common_jax.training.scored_run import ScoredRun
from launch.pages.examples import differing

RANDOM = np.random.default_rng(0)


def examples(scores, references=None, predictions=None):
    """Examples with these scores, whose predictions differ unless given."""
    references = references or [f"reference {n}" for n in range(len(scores))]
    predictions = predictions or [f"{score:.9f}" for score in scores]
    texts = [f"text {n}" for n in range(len(scores))]
    rows = zip(texts, texts, references, predictions, scores, strict=True)
    return [ScoredExample(*row) for row in rows]


@pytest.fixture
def evaluated(tmp_path):
    """Evaluations of the runs a, b and c with these predictions."""

    def evaluated(*predictions):
        evaluations = []
        for name, examples in zip("abc", predictions, strict=False):
            evaluations.append(Evaluation(Run(name, ScoredRun(tmp_path / name)), "test"))
            evaluations[-1].__dict__["predictions"] = examples
        return evaluations

    return evaluated


def test_the_largest_differences_are_chosen(evaluated):
    scores = 100 * RANDOM.random((3, 40))
    (table,) = differing(evaluated(*(examples(row.tolist()) for row in scores)))
    spread = scores.max(0) - scores.min(0)
    expected = sorted(range(40), key=lambda n: -spread[n])[:3]
    assert [int(row[0]) for row in table.rows] == expected
    assert table.head == ("example", "input", "reference", "a", "b", "c")
    first = expected[0]
    outputs = [f"{own[first]:.9f} ({own[first]:.1f})" for own in scores]
    assert [*table.rows[0]][1:] == [f"text {first}", f"reference {first}", *outputs]


def test_equal_predictions_and_other_references_are_left_out(evaluated):
    same = examples([1.0, 2.0], predictions=["x", "y"])
    other = examples([9.0, 2.0], references=["p", "q"])
    assert differing(evaluated(same, same, other)) == []
    better = examples([1.0, 5.0], predictions=["x", ""])
    (table,) = differing(evaluated(same, better, other))
    assert table.head[3:] == ("a", "b")
    assert [[*row] for row in table.rows] == [["1", "text 1", "reference 1", "y (2.0)", "- (5.0)"]]
