"""The noise of the examples in a difference of two runs, against NumPy."""

import numpy as np
import pytest

from common_jax.compare import Comparison, IncomparableError, Run
from common_jax.training.run_writer import RunWriter
from common_jax.training.task import Scores

RANDOM = np.random.default_rng(0)
LENGTHS = RANDOM.integers(3, 9, 40)


@pytest.fixture
def as_run(tmp_path):
    def make(label, lengths=LENGTHS, **results):
        workdir = RunWriter(tmp_path / label)
        workdir.path.mkdir()
        workdir.write_scores("dev", Scores({}, {}, {}, [], {"length": lengths, **results}))
        return Run(label, workdir)

    return make


@pytest.mark.parametrize(
    ("metric", "column", "scale"),
    [("accuracy", "right", 100), ("precision_at_1", "right", 100), ("f1", "f1", 100),
     ("nll", "nll", 1)],
)  # fmt: skip
def test_it_is_the_standard_error_of_the_paired_differences(as_run, metric, column, scale):
    draw = lambda: RANDOM.integers(0, 2, 40) if column == "right" else RANDOM.random(40)
    first, second = draw(), draw()
    runs = as_run("a", **{column: first}), as_run("b", **{column: second})
    error = Comparison.example_error(*runs, "dev", metric)
    expected = scale * np.sqrt(np.var(first - second, ddof=1) / 40)
    assert error == pytest.approx(expected, rel=1e-4)
    assert Comparison.example_error(runs[0], runs[0], "dev", metric) == 0


def test_scores_without_results_or_of_other_examples_have_none(as_run):
    right = RANDOM.integers(0, 2, 40)
    runs = as_run("a", right=right), as_run("b", right=right), as_run("c", 1 + LENGTHS, right=right)
    for metric in ("f1", "sacrebleu"):
        with pytest.raises(IncomparableError, match=f"no {metric} of the examples of dev"):
            Comparison.example_error(*runs[:2], "dev", metric)
    with pytest.raises(IncomparableError, match="differs"):
        Comparison.example_error(runs[0], runs[2], "dev", "accuracy")
