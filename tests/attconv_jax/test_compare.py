"""Comparison of labels: tests of right answers, lengths, confusion."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from attconv_jax.compare import LabelEvaluation
from common_jax.compare import IncomparableError, Run
from common_jax.errors import UserError
from common_jax.metrics.classification import count_of, equal_proportions
from common_jax.training.run_writer import RunWriter
from common_jax.training.task import Scores

HEAD = "gold\tlabel\tno\tyes"
RANDOM = np.random.default_rng(0)
RIGHT = {"a": RANDOM.random(200) < 0.5, "b": RANDOM.random(200) < 0.7}
LENGTHS = RANDOM.integers(1, 9, 200)


def evaluation(run):
    return LabelEvaluation(run, "test")


def sections_of(runs):
    baseline, *others = map(evaluation, runs)
    return baseline.sections(others)


@pytest.fixture
def as_run(tmp_path):
    def make(label, right=None, gold="no", lengths=LENGTHS, results=True, **notes):
        """Writes a run.

        Args:
          right: whether each example is right; None is RIGHT's.
          results: whether the results of the examples are written.
        """
        right = RIGHT[label] if right is None else right
        lines = [HEAD, *[f"{gold}\tyes\t0.4\t0.6"] * len(right)]
        files = {"tsv": "\n".join(lines) + "\n"}
        workdir = RunWriter(tmp_path / label)
        workdir.path.mkdir()
        notes = {"correct": count_of(float(right.sum())), "examples": len(right), **notes}
        each = {"length": lengths, "right": right} if results else {}
        workdir.write_scores("test", Scores({}, notes, files, [], each))
        return Run(label, workdir)

    return make


def test_right_labels_are_tested_as_scipy_does(as_run):
    a, b = as_run("a"), as_run("b")
    numbers = evaluation(b).paired(evaluation(a)).numbers
    (wins, losses), n = ((RIGHT["b"] & ~RIGHT["a"]).sum(), (RIGHT["a"] & ~RIGHT["b"]).sum()), 200
    assert (numbers["wins"], numbers["losses"]) == (wins, losses)
    counts = [int(right.sum()) for right in RIGHT.values()]
    table = [[count, n - count] for count in counts]
    expected = stats.chi2_contingency(table, correction=False).pvalue
    assert numbers["p_equal_proportions"] == pytest.approx(expected)
    assert wins + losses >= 25
    chi_square = (abs(wins - losses) - 1) ** 2 / (wins + losses)
    assert numbers["p_mcnemar"] == pytest.approx(stats.chi2.sf(chi_square, 1))
    paired = stats.ttest_rel(100.0 * RIGHT["b"], 100.0 * RIGHT["a"])
    interval = [numbers[f"right_difference_{end}"] for end in ("low", "high")]
    assert interval == pytest.approx([*paired.confidence_interval(0.95)])
    assert numbers["right_difference"] == pytest.approx((counts[1] - counts[0]) / 2)


def test_chances_of_ties_are_tested_by_permutations(as_run):
    """A tie between n labels gives 1/n, which McNemar's test cannot count."""
    chances = np.where(np.arange(200) % 3 == 0, 0.25, RIGHT["b"])
    a, b = as_run("a"), as_run("b", chances)
    numbers = evaluation(b).paired(evaluation(a)).numbers
    assert numbers["right_difference"] == pytest.approx(100 * (chances - RIGHT["a"]).mean())
    paired = stats.permutation_test(
        (100 * (chances - RIGHT["a"]),), np.mean, permutation_type="samples", n_resamples=20_000,
        random_state=0,
    )  # fmt: skip
    assert numbers["p_permutation"] == pytest.approx(paired.pvalue, abs=0.015)
    assert not {"p_mcnemar", "wins", "losses"} & numbers.keys()
    counts = [float(right.sum()) for right in (RIGHT["a"], chances)]
    assert numbers["p_equal_proportions"] == pytest.approx(
        equal_proportions(counts[1], 200, counts[0], 200)
    )
    (section,) = sections_of([a, b])
    (table,) = section.elements
    assert dict(zip(table.head, table.rows[1], strict=True))["right"] == counts[1]


def test_the_report_has_the_numbers_of_the_paired_tests(as_run):
    a, b = as_run("a"), as_run("b")
    numbers = evaluation(b).paired(evaluation(a)).numbers
    (section,) = sections_of([a, b])
    (table,) = section.elements
    first, second = (dict(zip(table.head, row, strict=True)) for row in table.rows)
    assert (first["right"], first["of"]) == (RIGHT["a"].sum(), 200)
    assert first["right gap"] is first["mcnemar p"] is first["equal_proportions p"] is None
    for name in ("mcnemar", "equal_proportions"):
        assert second[f"{name} p"] == f"{numbers[f'p_{name}']:.4f}"
    assert (second["wins"], second["losses"]) == (numbers["wins"], numbers["losses"])
    gap, low, high = (numbers[f"right_difference{end}"] for end in ("", "_low", "_high"))
    assert second["right gap"] == f"{gap:+.2f} ({low:+.2f} to {high:+.2f})"
    assert second["right detectable"] == f"{numbers['right_detectable']:.2f}"


def test_a_tenth_by_length_has_the_noise_of_its_own_examples(as_run):
    parts = [[1, 2, rate] for rate in range(10)]
    a, b = as_run("a", by_length=parts), as_run("b")
    assert evaluation(a).further_metrics == {f"accuracy_tenth_{n}": n - 1.0 for n in range(1, 11)}
    assert evaluation(b).further_metrics == {}
    order = sorted(range(200), key=lambda at: LENGTHS[at])  # stable
    for number, metric in ((1, "accuracy_tenth_1"), (10, "accuracy_tenth_10")):
        members = order[20 * (number - 1) : 20 * number]
        differences = [100.0 * RIGHT["b"][at] - 100.0 * RIGHT["a"][at] for at in members]
        error = LabelEvaluation.example_error([evaluation(b)], [evaluation(a)], metric)
        assert error == pytest.approx(stats.sem(differences))


def test_runs_of_other_examples_are_not_compared(as_run):
    a, b = as_run("a"), as_run("b", gold="yes")
    c = as_run("c", RIGHT["b"], lengths=LENGTHS + 1)
    section = sections_of([a, b, c])[0]
    table, *notes = section.elements
    assert table.head == ["run", "right", "of", "%"]
    assert notes == [
        f"{a.workdir.path}: its test differs from that of {run.workdir.path}" for run in (b, c)
    ]
    for other in (b, c):
        with pytest.raises(IncomparableError, match="its test differs from that of"):
            evaluation(a).paired(evaluation(other))


def test_older_runs_are_compared_by_their_counts(as_run):
    a, b = as_run("a", results=False), as_run("b")
    paired = evaluation(b).paired(evaluation(a))
    assert set(paired.numbers) == {"right_difference", "p_equal_proportions"}
    assert paired.notes == [
        f"{a.workdir.path}: no eval/test.examples.tsv; score test of that run again to compare its "
        "examples"
    ]
    (section,) = sections_of([a, b])
    assert section.elements[1:] == paired.notes
    c = as_run("c", RIGHT["b"])
    c.workdir.write_scores("test", Scores({}, {}, {}, []))
    with pytest.raises(IncomparableError, match="c: its score of test counts no right answers"):
        evaluation(c).paired(evaluation(b))


def test_one_example_has_no_interval(as_run):
    a, b = (as_run(name, np.array([name == "b"]), lengths=np.array([3])) for name in "ab")
    numbers = evaluation(b).paired(evaluation(a)).numbers
    assert numbers.pop("p_equal_proportions") == pytest.approx(stats.norm.sf(2**0.5) * 2)
    assert numbers == {"right_difference": 100, "wins": 1, "losses": 0, "p_mcnemar": 1}


def test_lengths_and_confusions_are_optional(as_run):
    notes = {
        "by_length": [[1, 3, 80.0], [4, 9, 70.0]],
        "confusion": {"no": {"no": 3, "yes": 1}, "yes": {"no": 0, "yes": 6}},
    }
    _, lengths, confusion = sections_of([as_run("a", **notes), as_run("b")])
    (chart,) = lengths.elements
    assert [(s.name, s.x, s.y) for s in chart.series] == [("a", ["1-3", "4-9"], [80.0, 70.0])]
    _, table = confusion.elements
    assert (table.head, table.rows) == (("a", "no", "yes"), [["no", 3, 1], ["yes", 0, 6]])
    assert table.shaded


def with_corpus(run, gold):
    """A run with a corpus of pairs of these labels."""
    label = SimpleNamespace(column=lambda _: np.array(gold))
    run.__dict__["corpus"] = SimpleNamespace(
        config=SimpleNamespace(names=("no", "yes"), format="pairs"),
        texts=lambda _: [[f"first\t{n}", "second"] for n in range(len(gold))],
        corpus=lambda _: label,
    )
    return run


def test_examples_have_the_probability_of_the_gold_label(as_run):
    run = with_corpus(as_run("a", right=np.zeros(200)), [0] * 200)
    *_, last = evaluation(run).predictions
    assert (last.reference, last.prediction, last.score) == ("no", "yes", 40)
    assert (last.line, last.text) == ("first 199\tsecond", "first\t199 / second")


def test_an_ensemble_has_the_mean_of_the_probabilities(tmp_path):
    labels, gold = ["no", "yes", "so"], RANDOM.integers(0, 3, 50)
    chances = RANDOM.dirichlet([1, 1, 1], (3, 50)).round(6)
    runs = []
    for number, each in enumerate(chances):
        workdir = RunWriter(tmp_path / f"run{number}")
        workdir.path.mkdir()
        rows = [
            "\t".join([labels[right], labels[row.argmax()], *map(str, row)])
            for right, row in zip(gold, each, strict=True)
        ]
        text = "\n".join(["gold\tlabel\tno\tyes\tso", *rows]) + "\n"
        results = {"length": LENGTHS[:50], "right": each.argmax(1) == gold}
        workdir.write_scores("test", Scores({}, {}, {"tsv": text}, [], results))
        runs.append(evaluation(Run(str(number), workdir)))
    first, *others = runs
    expected = 100 * (chances.mean(0).argmax(1) == gold).mean()
    assert first.ensemble(others).mean("accuracy") == pytest.approx(expected)
    assert first.mean("accuracy") != pytest.approx(expected)  # the first run is left as it was
    with pytest.raises(IncomparableError, match="its test differs"):
        path = tmp_path / "run1" / "eval" / "test.predictions.tsv"
        path.write_text(path.read_text().replace("\nyes\t", "\nno\t", 1))
        first.ensemble([evaluation(Run("1", RunWriter(tmp_path / "run1")))])


def test_labels_of_another_run_are_rejected(as_run):
    other_gold = with_corpus(as_run("a", right=np.zeros(200)), [0] * 199 + [1])
    other_score = with_corpus(as_run("b", right=np.ones(200)), [0] * 200)
    for run in (other_gold, other_score):
        with pytest.raises(UserError, match=r"test\.predictions\.tsv: not the labels of its score"):
            _ = evaluation(run).predictions


def test_attention_between_words_is_drawn():
    weights = [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]
    maps = [
        {"text": 0, "context": 1, "weights": weights},
        {"text": None, "context": 0, "weights": [[0.2, 0.3, 0.5]]},
    ]
    answer = {"label": "yes", "probabilities": {"no": 0.1, "yes": 0.9}, "layers": [maps]}
    answer["words"] = [["a", "b", "c"], ["d", "e"]]
    text, (pair, pooled) = LabelEvaluation.pictured(json.dumps(answer), "run", "a b c\td e")
    assert text == "yes (0.90)"
    assert (pair.rows, pair.columns, pair.panels[0].values) == (*answer["words"], weights)
    assert (pair.y_label, pair.x_label) == ("words of text 1", "words of text 2")
    assert (pooled.rows, pooled.columns) == (["sum 1"], ["a", "b", "c"])
    without = json.dumps({**answer, "layers": []})
    assert LabelEvaluation.pictured(without, "run", "")[1] == []
