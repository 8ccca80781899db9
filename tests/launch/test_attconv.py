"""The commands on a tiny AttentiveConvNet: comparisons, ensembles, pairs, a report."""

import json
import re
import shutil

import pytest

from common_jax.errors import UserError
from launch import evaluate
from launch.score_tables import score_tables
from launch.train import __main__ as train
from tests.families.runs import FAMILIES, SIZES
from tests.launch import commands
from tests.launch.commands import fails, labelled, scores
from tests.launch.tiny_runs import evaluated, result

FAMILY = FAMILIES["attconv"]
TESTED = SIZES["test"]


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """The folder of a run, `run`, and of one with half as many steps, `run1`."""
    folder = tiny("attconv", tmp_path_factory.mktemp("attconv"))
    train.main(FAMILY.arguments(folder, "run1", **{"train.steps": 2}))
    return folder


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


def test_an_older_run_is_compared_with_a_note(folder, capsys):
    older = shutil.copytree(folder / "run1", folder / "older")
    (older / "eval" / "test.examples.tsv").unlink()
    evaluate.main(["--workdir", str(folder / "run"), "--against", str(older)])
    assert f"{older}: no eval/test.examples.tsv" in capsys.readouterr().err


def test_another_file_is_scored_with_the_words_of_the_run(folder, capsys):
    path = folder / "more.tsv"
    path.write_text("entailment\tA wholly new sentence here.\tAnother.\n" * 3)
    printed = scores(capsys, folder / "run", "--data", path)
    assert (printed["split"], printed["examples"]) == ("more", 3)


def test_scores_before_a_run_was_continued_are_compared_with_no_others(folder, capsys):
    path = folder / "news.tsv"
    path.write_text("entailment\tA wholly new sentence here.\tAnother.\n" * 3)
    continued = shutil.copytree(folder / "run1", folder / "continued")
    scores(capsys, continued, "--data", path)
    scores(capsys, folder / "run", "--data", path, "--against", continued)
    file = continued / "result.json"
    best = result(continued)["best_step"]
    file.write_text(json.dumps({**result(continued), "best_step": best + 2}))
    for words in (f"step {best}, and its best is step {best + 2}: score", "an unknown step"):
        with pytest.raises(UserError, match=f"{continued}: its scores on news are of {words}"):
            evaluate.main(f"--workdir {folder}/run --data {path} --against {continued}".split())
        scored = continued / "eval" / "news.json"  # as an earlier version wrote it
        scored.write_text(json.dumps({"accuracy": 100.0}))


def test_pairs_are_labelled_on_standard_output(folder, monkeypatch, capsys):
    lines = ["Two red cups.\tOne cup.", "Über 😀\tשלום"]
    run = ["--workdir", folder / "run", "--explain"]
    answers = [*map(json.loads, commands.answers(monkeypatch, capsys, lines, *run))]
    names = {"label", "probabilities", "score", "unknown_words", "words", "layers"}
    assert [{*answer} for answer in answers] == [names] * 2
    assert answers[0]["words"] == [["two", "red", "cups", "."], ["one", "cup", "."]]


def test_too_little_memory_is_one_line(folder, monkeypatch, capsys):
    argv = FAMILY.arguments(folder, "vast", **{"model.dim": 8_000_000, "words.dim": 1})
    line = fails(monkeypatch, capsys, [*argv, "--quiet"])
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
    assert b"p_mcnemar" not in evaluated(folder / "run1")["test.json"]
    low, high = printed["intervals"]["accuracy"]
    assert f"({low:.2f} to {high:.2f})" in page


def test_labels_have_precision_recall_f1_and_counts():
    confusion = {"bad": {"bad": 3, "good": 1, "odd": 0}, "good": {"bad": 2, "good": 2, "odd": 0}}
    confusion["odd"] = {"bad": 0, "good": 0, "odd": 0}
    text = score_tables({"confusion": confusion, "by_length": [[1, 4, 75.0], [5, 9, 50.0]]})
    labels, _, lengths = text.partition("\n\n")
    rows = {row.split()[0]: row.split()[1:] for row in labels.splitlines()}
    assert rows["label"] == ["precision", "recall", "F1", "examples", "predicted"]
    assert rows["bad"] == ["60.0", "75.0", "66.7", "4", "5"]
    assert rows["good"] == ["66.7", "50.0", "57.1", "4", "3"]
    assert rows["odd"] == ["-", "-", "-", "0", "0"]
    assert [row.split() for row in lengths.splitlines()[1:]] == [
        ["1", "to", "4", "75.0"],
        ["5", "to", "9", "50.0"],
    ]
    assert score_tables({"intervals": {}}) == ""
