"""Comparison of labels: tests of right answers, also by length and of ensembles."""

import numpy as np
import pytest
from scipy import stats

from attconv_jax.compare import LabelEvaluation
from common_jax.compare import IncomparableError
from common_jax.metrics.classification import equal_proportions
from common_jax.training.run_writer import RunWriter
from common_jax.training.task import Scores
from tests.families.stored_runs import EVALUATIONS, LENGTHS, RIGHT, labels, sections_of
from tests.families.tasks import by_head, stored

evaluation = EVALUATIONS["attconv"]


def paired(first, second):
    return evaluation(second).paired(evaluation(first)).numbers


@pytest.fixture
def first(tmp_path):
    return labels(tmp_path, "first")


def test_right_labels_are_tested_as_scipy_does(first, tmp_path):
    numbers = paired(first, labels(tmp_path, "better"))
    wins = (RIGHT["better"] & ~RIGHT["first"]).sum()
    losses = (RIGHT["first"] & ~RIGHT["better"]).sum()
    assert (numbers["wins"], numbers["losses"]) == (wins, losses)
    counts = [int(right.sum()) for right in RIGHT.values()]
    table = [[count, 200 - count] for count in counts]
    expected = stats.chi2_contingency(table, correction=False).pvalue
    assert numbers["p_equal_proportions"] == pytest.approx(expected)
    assert wins + losses >= 25
    chi_square = (abs(wins - losses) - 1) ** 2 / (wins + losses)
    assert numbers["p_mcnemar"] == pytest.approx(stats.chi2.sf(chi_square, 1))
    differences = stats.ttest_rel(100.0 * RIGHT["better"], 100.0 * RIGHT["first"])
    interval = [numbers[f"right_difference_{end}"] for end in ("low", "high")]
    assert interval == pytest.approx([*differences.confidence_interval(0.95)])
    assert numbers["right_difference"] == pytest.approx((counts[1] - counts[0]) / 2)


def test_chances_of_ties_are_tested_by_permutations(first, tmp_path):
    """A tie between n labels gives 1/n, which McNemar's test cannot count."""
    chances = np.where(np.arange(200) % 3 == 0, 0.25, RIGHT["better"])
    other = labels(tmp_path, "better", right=chances)
    numbers = paired(first, other)
    differences = 100 * (chances - RIGHT["first"])
    assert numbers["right_difference"] == pytest.approx(differences.mean())
    options = {"permutation_type": "samples", "n_resamples": 20_000, "random_state": 0}
    expected = stats.permutation_test((differences,), np.mean, **options).pvalue
    assert numbers["p_permutation"] == pytest.approx(expected, abs=0.015)
    assert not {"p_mcnemar", "wins", "losses"} & numbers.keys()
    counts = [float(right.sum()) for right in (RIGHT["first"], chances)]
    expected = equal_proportions(counts[1], 200, counts[0], 200)
    assert numbers["p_equal_proportions"] == pytest.approx(expected)
    rows = by_head(sections_of("attconv", [first, other])[0].elements[0]).values()
    assert [(row["right"], row["of"]) for row in rows] == [(count, 200) for count in counts]


def test_a_tenth_by_length_has_the_noise_of_its_own_examples(tmp_path):
    parts = [[1, 2, rate] for rate in range(10)]
    first = evaluation(labels(tmp_path, "first", by_length=parts))
    better = evaluation(labels(tmp_path, "better"))
    assert first.further_metrics == {f"accuracy_tenth_{n}": n - 1.0 for n in range(1, 11)}
    assert better.further_metrics == {}
    order = sorted(range(200), key=lambda at: LENGTHS[at])  # stable
    for number, metric in ((1, "accuracy_tenth_1"), (10, "accuracy_tenth_10")):
        members = order[20 * (number - 1) : 20 * number]
        differences = [100.0 * RIGHT["better"][n] - 100.0 * RIGHT["first"][n] for n in members]
        error = LabelEvaluation.example_error([better], [first], metric)
        assert error == pytest.approx(stats.sem(differences))


def test_runs_without_counts_of_right_answers_are_not_compared(first, tmp_path):
    other = labels(tmp_path, "better")
    RunWriter(other.workdir.path).write_scores("test", Scores({}, {}, {}, []))
    with pytest.raises(IncomparableError, match="better: its score of test counts no right"):
        paired(first, other)


def test_one_example_has_no_interval(tmp_path):
    runs = (
        labels(tmp_path, name, right=np.array([name == "better"]), lengths=np.array([3]))
        for name in RIGHT
    )
    numbers = paired(*runs)
    assert numbers.pop("p_equal_proportions") == pytest.approx(stats.norm.sf(2**0.5) * 2)
    assert numbers == {"right_difference": 100, "wins": 1, "losses": 0, "p_mcnemar": 1}


def test_an_ensemble_has_the_mean_of_the_probabilities(tmp_path):
    names = ["no", "yes", "so"]
    random = np.random.default_rng(1)
    gold = random.integers(0, 3, 50)
    chances = random.dirichlet([1, 1, 1], (3, 50)).round(6)
    runs = []
    for number, each in enumerate(chances):
        rows = [
            "\t".join([names[right], names[row.argmax()], *map(str, row)])
            for right, row in zip(gold, each, strict=True)
        ]
        text = "\n".join(["gold\tlabel\tno\tyes\tso", *rows]) + "\n"
        results = {"length": LENGTHS[:50], "right": each.argmax(1) == gold}
        runs.append(stored(tmp_path / f"run{number}", "test", {"tsv": text}, results=results))
    first, *others = map(evaluation, runs)
    expected = 100 * (chances.mean(0).argmax(1) == gold).mean()
    assert first.ensemble(others).mean("accuracy") == pytest.approx(expected)
    assert first.mean("accuracy") != pytest.approx(expected)  # the first run is left as it was
    path = tmp_path / "run1" / "eval" / "test.predictions.tsv"
    path.write_text(path.read_text().replace("\nyes\t", "\nno\t", 1))
    with pytest.raises(IncomparableError, match="its test differs"):
        first.ensemble([evaluation(runs[1])])
