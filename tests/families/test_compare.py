"""What comparisons of translations, answers and labels have in common, and those of answers."""

import itertools

import numpy as np
import pytest

from common_jax.compare import IncomparableError
from tests.families import stored_runs
from tests.families.stored_runs import EVALUATIONS, EXACT, F1, LENGTHS, REFERENCES, sections_of
from tests.families.tasks import by_head


def runs_of(family, folder, *systems):
    return [stored_runs.RUNS[family](folder, system) for system in systems]


def paired(family, baseline, run):
    return EVALUATIONS[family](run).paired(EVALUATIONS[family](baseline))


def p_values(row):
    return {name: value for name, value in row.items() if name.endswith(" p") and value is not None}


@pytest.mark.parametrize(
    ("family", "result", "tests"),
    [
        ("qanet", "f1", ("f1", "exact_match")),
        ("attconv", "right", ("mcnemar", "equal_proportions")),
    ],
)
def test_the_report_has_the_numbers_of_the_paired_tests(family, result, tests, tmp_path):
    runs = runs_of(family, tmp_path, "first", "better")
    numbers = paired(family, *runs).numbers
    (section,) = sections_of(family, runs)
    (table,) = section.elements
    first, second = by_head(table).values()
    assert first[f"{result} gap"] is None and not p_values(first)
    assert p_values(second) == {f"{name} p": f"{numbers[f'p_{name}']:.4f}" for name in tests}
    gap, low, high = (numbers[f"{result}_difference{end}"] for end in ("", "_low", "_high"))
    assert second[f"{result} gap"] == f"{gap:+.2f} ({low:+.2f} to {high:+.2f})"
    assert second[f"{result} detectable"] == f"{numbers[f'{result}_detectable']:.2f}"
    counts = {"wins", "losses"} & {*table.head}
    assert {name: second[name] for name in counts} == {name: numbers[name] for name in counts}
    assert bool(counts) == (family == "attconv")


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("csan", {"hypotheses": REFERENCES[:9], "references": REFERENCES[:9]}),
        ("qanet", {"texts": dict.fromkeys("01234568", "x")}),
        ("qanet", {"lengths": range(8)}),
        ("attconv", {"gold": "yes"}),
        ("attconv", {"lengths": LENGTHS + 1}),
    ],
    ids=["references", "questions", "lengths of passages", "gold labels", "lengths of texts"],
)
def test_runs_of_other_examples_are_not_compared(family, changes, tmp_path):
    first, better = runs_of(family, tmp_path, "first", "better")
    other = stored_runs.RUNS[family](tmp_path, "better", "other", **changes)
    with pytest.raises(IncomparableError, match="differs from that of") as error:
        paired(family, first, other)
    message = str(error.value)
    assert message.startswith(str(first.workdir.path)) and message.endswith(str(other.workdir.path))
    table, *notes = sections_of(family, [first, other, better])[0].elements
    rows = by_head(table)
    assert message in notes and not p_values(rows["other"]) and p_values(rows["better"])
    table, *notes = sections_of(family, [first, other])[0].elements
    assert message in notes and not p_values(by_head(table)["other"])


@pytest.mark.parametrize(
    ("family", "known"),
    [
        ("csan", {"sacrebleu_difference", "p_sacrebleu"}),
        ("attconv", {"right_difference", "p_equal_proportions"}),
    ],
)
def test_runs_without_results_of_examples_are_compared_by_their_scores(family, known, tmp_path):
    first, better = runs_of(family, tmp_path, "first", "better")
    older = stored_runs.RUNS[family](tmp_path, "better", "older", results=False)
    found = paired(family, first, older)
    every = paired(family, first, better).numbers
    assert known <= found.numbers.keys() < every.keys()
    assert found.numbers == pytest.approx({name: every[name] for name in found.numbers})
    assert not {*found.numbers} & {"p_nll", "p_mcnemar", "wins"}
    (note,) = found.notes
    assert note.startswith(f"{older.workdir.path}: no eval/test.examples.tsv; score test")
    assert note in sections_of(family, [first, older])[0].elements


def by_enumeration(differences):
    """p of the permutation test, by enumerating all signs."""
    signs = np.array([*itertools.product((1, -1), repeat=len(differences))])
    sums = np.abs(signs @ differences)
    return (sums >= sums[0] - 1e-9).mean()


def test_answers_are_tested_by_permutation_of_questions(tmp_path):
    numbers = paired("qanet", *runs_of("qanet", tmp_path, "first", "better")).numbers
    for name, scores in (("exact_match", EXACT), ("f1", F1)):
        differences = 100 * (scores["better"].astype(float) - scores["first"])
        assert numbers[f"{name}_difference"] == pytest.approx(differences.mean())
        half = 2.364624 * differences.std(ddof=1) / 8**0.5  # Student's t of 7 degrees of freedom
        ends = [numbers[f"{name}_difference_{end}"] for end in ("low", "high")]
        expected = (differences.mean() - half, differences.mean() + half)
        assert ends == pytest.approx(expected, rel=1e-5)
        p = by_enumeration(differences)
        assert numbers[f"p_{name}"] == pytest.approx(p, abs=0.02) and 0.02 < p < 0.98
