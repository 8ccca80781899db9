"""The noise of the examples in a difference of two evaluations, against NumPy."""

import numpy as np
import pytest

from common_jax.compare import Evaluation, IncomparableError
from tests.families.tasks import stored

RANDOM = np.random.default_rng(0)
LENGTHS = RANDOM.integers(3, 9, 40)


@pytest.fixture
def evaluated(tmp_path):
    def make(label, lengths=LENGTHS, **results):
        results = {"length": lengths, **results}
        return Evaluation(stored(tmp_path / label, "dev", {}, results=results), "dev")

    return make


def test_it_is_that_of_the_mean_over_the_runs(evaluated):
    f1 = RANDOM.random((3, 40))
    *runs, baseline = (evaluated(name, f1=own) for name, own in zip("abc", f1, strict=True))
    expected = 100 * np.sqrt(np.var(f1[:2].mean(0) - f1[2], ddof=1) / 40)
    assert Evaluation.example_error(runs, [baseline], "f1") == pytest.approx(expected, rel=1e-4)
    expected = 100 * np.sqrt(np.var(f1[:2].mean(0), ddof=1) / 40)
    assert Evaluation.example_error(runs, [], "f1") == pytest.approx(expected, rel=1e-4)


def test_scores_without_results_or_of_other_examples_have_none(evaluated):
    right = RANDOM.integers(0, 2, 40)
    evaluations = (
        evaluated("a", right=right),
        evaluated("b", right=right),
        evaluated("c", 1 + LENGTHS, right=right),
    )
    for metric in ("f1", "sacrebleu"):
        with pytest.raises(IncomparableError, match=f"no {metric} of the examples of dev"):
            Evaluation.example_error(evaluations[:1], evaluations[1:2], metric)
    with pytest.raises(IncomparableError, match="differs"):
        Evaluation.example_error(evaluations[:1], evaluations[2:], "accuracy")
