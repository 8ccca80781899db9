"""The noise of the examples in a difference of two evaluations, against NumPy."""

import numpy as np
import pytest

from common_jax.compare import Evaluation, IncomparableError, Run
from common_jax.training.run_writer import RunWriter
from common_jax.training.task import Scores

RANDOM = np.random.default_rng(0)
LENGTHS = RANDOM.integers(3, 9, 40)


@pytest.fixture
def evaluated(tmp_path):
    def make(label, lengths=LENGTHS, **results):
        workdir = RunWriter(tmp_path / label)
        workdir.path.mkdir()
        workdir.write_scores("dev", Scores({}, {}, {}, [], {"length": lengths, **results}))
        return Evaluation(Run(label, workdir), "dev")

    return make


@pytest.mark.parametrize(
    ("metric", "column", "scale"),
    [("accuracy", "right", 100), ("precision_at_1", "right", 100), ("f1", "f1", 100),
     ("nll", "nll", 1)],
)  # fmt: skip
def test_it_is_the_standard_error_of_the_paired_differences(evaluated, metric, column, scale):
    draw = lambda: RANDOM.integers(0, 2, 40) if column == "right" else RANDOM.random(40)
    first, second = draw(), draw()
    evaluations = evaluated("a", **{column: first}), evaluated("b", **{column: second})
    error = evaluations[0].example_error(evaluations[1], metric)
    expected = scale * np.sqrt(np.var(first - second, ddof=1) / 40)
    assert error == pytest.approx(expected, rel=1e-4)
    assert evaluations[0].example_error(evaluations[0], metric) == 0


def test_scores_without_results_or_of_other_examples_have_none(evaluated):
    right = RANDOM.integers(0, 2, 40)
    evaluations = (
        evaluated("a", right=right),
        evaluated("b", right=right),
        evaluated("c", 1 + LENGTHS, right=right),
    )
    for metric in ("f1", "sacrebleu"):
        with pytest.raises(IncomparableError, match=f"no {metric} of the examples of dev"):
            evaluations[0].example_error(evaluations[1], metric)
    with pytest.raises(IncomparableError, match="differs"):
        evaluations[0].example_error(evaluations[2], "accuracy")
