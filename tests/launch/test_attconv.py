"""The commands on a tiny AttentiveConvNet: resumption, comparisons, ensembles, pairs, a report."""

import json
import operator
import re
import shutil
import sys

import pytest

from common_jax.errors import UserError
from launch import cli, evaluate
from launch.train import __main__ as train
from tests.families.runs import FAMILIES, SIZES
from tests.launch import commands
from tests.launch.commands import labelled, scores
from tests.launch.tiny_runs import evaluated

FAMILY = FAMILIES["attconv"]
TESTED = SIZES["test"]


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """The folder of a run, `run`, and of one with half as many steps, `run1`."""
    folder = tiny("attconv", tmp_path_factory.mktemp("attconv"))
    train.main(FAMILY.arguments(folder, "run1", **{"train.steps": 2}))
    return folder


def test_evaluate_compares_runs(folder, capsys):
    printed = scores(capsys, folder / "run", "--against", folder / "run1")
    first, second = (
        [gold == label for gold, label, *_ in labelled(folder / name)] for name in ("run", "run1")
    )
    right = sum(first)
    assert (printed["examples"], printed["correct"]) == (TESTED, right)
    assert printed["accuracy"] == pytest.approx(100 * right / TESTED)
    wins, losses = (sum(map(operator.gt, *pair)) for pair in ((first, second), (second, first)))
    assert (printed["wins"], printed["losses"]) == (wins, losses)
    difference = 100 * (wins - losses) / TESTED
    assert printed["right_difference"] == pytest.approx(difference, abs=6e-5)
    assert b"p_mcnemar" not in evaluated(folder / "run")["test.json"]


def test_an_ensemble_is_scored_as_one(folder, capsys):
    both = [folder / "run", "--workdir", folder / "run1"]
    assert scores(capsys, *both)["split"] == "test-ensemble2"
    names = (("run", "test"), ("run1", "test"), ("run", "test-ensemble2"))
    rows = [labelled(folder / run, name) for run, name in names]
    for one, other, ensemble in zip(*rows, strict=True):
        for a, b, mean in zip(one[2:], other[2:], ensemble[2:], strict=True):
            assert float(mean) == pytest.approx((float(a) + float(b)) / 2, abs=2e-6)
    right = commands.example_results(folder / "run", "test-ensemble2")["right"]
    assert right == [gold == label for gold, label, *_ in rows[2]]
    alone = commands.example_results(folder / "run1", "test")["right"]
    printed = scores(capsys, *both, "--against", folder / "run1")
    difference = 100 * (sum(right) - sum(alone)) / TESTED
    assert printed["right_difference"] == pytest.approx(difference, abs=6e-5)


def test_runs_of_other_examples_are_neither_averaged_nor_compared(folder, tiny, tmp_path):
    """Labels alternate in the corpus, so that equal labels do not show equal examples."""
    other = tiny("attconv", tmp_path) / "run"
    FAMILY.written(tmp_path, first=1)
    (other / "data.json").unlink()  # as in a run of an earlier version
    evaluate.main(["--workdir", str(other)])
    for option in ("--workdir", "--against"):
        with pytest.raises(UserError, match=f"{other}: its test .* {folder / 'run'}"):
            evaluate.main(["--workdir", str(folder / "run"), option, str(other)])


def test_an_older_run_without_example_results_is_compared_by_its_counts(folder, capsys):
    older = shutil.copytree(folder / "run1", folder / "older")
    (older / "eval" / "test.examples.tsv").unlink()
    evaluate.main(["--workdir", str(folder / "run"), "--against", str(older)])
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    assert "p_equal_proportions" in printed and "p_mcnemar" not in printed
    assert f"{older}: no eval/test.examples.tsv" in captured.err


def test_another_file_is_scored_with_the_words_of_the_run(folder, capsys):
    path = folder / "more.tsv"
    path.write_text("entailment\tA wholly new sentence here.\tAnother.\n" * 3)
    printed = scores(capsys, folder / "run", "--data", path)
    assert (printed["split"], printed["examples"]) == ("more", 3)


def test_pairs_are_labelled_on_standard_output(folder, monkeypatch, capsys):
    lines = ["Two red cups.\tOne cup.", "Über 😀\tשלום"]
    run = ["--workdir", folder / "run", "--explain"]
    answers = [*map(json.loads, commands.answers(monkeypatch, capsys, lines, *run))]
    names = {"label", "probabilities", "score", "unknown_words", "words", "layers"}
    assert [{*answer} for answer in answers] == [names] * 2
    assert answers[0]["words"] == [["two", "red", "cups", "."], ["one", "cup", "."]]


def test_too_little_memory_is_one_line(folder, monkeypatch, capsys):
    argv = FAMILY.arguments(folder, "vast", **{"model.dim": 8_000_000, "words.dim": 1})
    monkeypatch.setattr(sys, "argv", ["launch", *argv])
    with pytest.raises(SystemExit) as exit_:
        cli.run(train.main)
    assert exit_.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"error: Out of memory allocating \d+ bytes \(smaller .* need less\)", line)


def test_report_has_confusion_lengths_and_p(folder, capsys):
    page = commands.reported(folder, "run", "run1")
    sections = [
        "Sentence classification: differences on test",
        "Sentence classification: length on test",
        "Sentence classification: confusion on test",
        "Sentence classification: pictures of an example of test",
    ]
    assert [title for title in commands.titles(page) if title in sections] == sections
    assert "run: attended words" in page and "run1: attended words" in page
    printed = scores(capsys, folder / "run1", "--against", folder / "run")
    assert f'<td class="number">{printed["p_equal_proportions"]:.4f}</td>' in page
    low, high = printed["intervals"]["accuracy"]
    assert f"({low:.2f} to {high:.2f})" in page
