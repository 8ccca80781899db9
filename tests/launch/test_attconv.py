"""The commands on a tiny AttentiveConvNet."""

import functools
import json
import operator
import os
import re
import shutil
import subprocess
import sys

import pytest

from attconv_jax.data.synthetic import generate
from attconv_jax.data.text import tokenize
from common_jax.errors import UserError
from launch import cli, evaluate, train
from tests.launch import commands, tiny_runs
from tests.launch.commands import ROOT, fails
from tests.launch.tiny_runs import result

TINY = {
    **tiny_runs.TINY["attconv"],
    "data.source": "files",
    "data.train": "train.tsv",
    "data.dev": "dev.tsv",
    "data.test": "test.tsv",
    "data.columns": "1,2,3",
    "words.rows": 90,
    "train.steps": 4,
    "train.evaluate_every": 2,
    "train.checkpoint_every": 2,
    "train.log_every": 1,
    "optimizer.cooldown": 0.0,  # else a shorter run has another schedule
    "mesh.data": 1,
}


def arguments(folder, run="run", **changes):
    return commands.arguments("configs/attconv/quickstart.py", folder, run, **(TINY | changes))


def write_data(folder, seed=0):
    for split, count in (("train", 40), ("dev", 12), ("test", 12)):
        rows = (f"{label}\t{p}\t{h}\tmore\n" for p, h, label in generate(count, seed, split))
        (folder / f"{split}.tsv").write_text("".join(rows))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a run, `run`, and of one with half as many steps, `run1`."""
    folder = tmp_path_factory.mktemp("attconv")
    write_data(folder)
    train.main(arguments(folder))
    train.main(arguments(folder, "run1", **{"train.steps": 2}))
    return folder


def labelled(run, name="test"):
    """Gold label, label and probabilities of each example."""
    lines = (run / "eval" / f"{name}.predictions.tsv").read_text().splitlines()
    return [line.split("\t") for line in lines[1:]]


def test_train_leaves_the_files_of_the_contract(folder):
    run = folder / "run"
    assert set(result(run)["metrics"]) == {"dev", "test"}
    assert set(result(run)["metrics"]["test"]) == {"accuracy"}
    rows = labelled(run)
    results = commands.example_results(run, "test")
    assert results["index"] == list(range(12))
    assert results["right"] == [gold == label for gold, label, *_ in rows]
    texts = [line.split("\t")[1:3] for line in (folder / "test.tsv").read_text().splitlines()]
    assert results["length"] == [
        sum(len(tokenize(text, "english")) for text in pair) for pair in texts
    ]


def test_interrupted_equals_uninterrupted(folder):
    shutil.copytree(folder / "run1", folder / "again")
    train.main(arguments(folder, "again"))
    again = result(folder / "again")
    assert again["resumed_from"] == [2]
    for name in ("parameters_sha256", "metrics"):
        assert again[name] == result(folder / "run")[name]


def printed(capsys, *argv):
    evaluate.main(list(argv))
    return json.loads(capsys.readouterr().out)


def test_evaluate_repeats_the_final_score_and_compares_runs(folder, capsys):
    runs = [str(folder / name) for name in ("run", "run1")]
    scores = printed(capsys, "--workdir", runs[0], "--against", runs[1])
    assert scores["accuracy"] == pytest.approx(
        result(folder / "run")["metrics"]["test"]["accuracy"]
    )
    first, second = (
        [gold == label for gold, label, *_ in labelled(folder / name)] for name in ("run", "run1")
    )
    right = sum(first)
    assert (scores["examples"], scores["correct"]) == (12, right)
    assert scores["accuracy"] == pytest.approx(100 * right / 12)
    wins, losses = (sum(map(operator.gt, *pair)) for pair in ((first, second), (second, first)))
    assert (scores["wins"], scores["losses"]) == (wins, losses)
    assert scores["right_difference"] == pytest.approx(100 * (wins - losses) / 12, abs=6e-5)
    evaluated = json.loads((folder / "run" / "eval" / "test.json").read_text())
    assert "p_mcnemar" not in evaluated


def test_an_ensemble_is_scored_as_one(folder, capsys):
    runs = [str(folder / name) for name in ("run", "run1")]
    scores = printed(capsys, "--workdir", runs[0], "--workdir", runs[1])
    assert scores["split"] == "test-ensemble2"
    names = (("run", "test"), ("run1", "test"), ("run", "test-ensemble2"))
    rows = [labelled(folder / run, name) for run, name in names]
    for one, other, both in zip(*rows, strict=True):
        for a, b, mean in zip(one[2:], other[2:], both[2:], strict=True):
            assert float(mean) == pytest.approx((float(a) + float(b)) / 2, abs=2e-6)
    right = commands.example_results(folder / "run", "test-ensemble2")["right"]
    assert right == [gold == label for gold, label, *_ in rows[2]]
    scores = printed(capsys, *("--workdir", runs[0], "--workdir", runs[1], "--against", runs[1]))
    alone = commands.example_results(folder / "run1", "test")["right"]
    assert scores["right_difference"] == pytest.approx(
        100 * (sum(right) - sum(alone)) / 12, abs=6e-5
    )


def test_runs_of_other_examples_are_neither_averaged_nor_compared(folder):
    """Labels alternate in the generated corpus, so that equal labels do not show equal examples."""
    other = folder / "other"
    shutil.copytree(folder / "run1", other / "run")
    write_data(other, seed=1)
    (other / "run" / "data.json").unlink()  # as in a run of an earlier version
    saved = json.loads((other / "run" / "config.json").read_text())
    saved["config"]["data"]["dir"] = str(other)
    (other / "run" / "config.json").write_text(json.dumps(saved))
    evaluate.main(["--workdir", str(other / "run")])
    for option in ("--workdir", "--against"):
        with pytest.raises(UserError) as error:
            evaluate.main(["--workdir", str(folder / "run"), option, str(other / "run")])
        message = f"{other / 'run'}: its test differs from that of {folder / 'run'}"
        assert str(error.value) == message


def test_an_older_run_without_example_results_is_compared_by_its_counts(folder, capsys):
    older = shutil.copytree(folder / "run1", folder / "older")
    (older / "eval" / "test.examples.tsv").unlink()
    evaluate.main(["--workdir", str(folder / "run"), "--against", str(older)])
    captured = capsys.readouterr()
    scores = json.loads(captured.out)
    assert "p_equal_proportions" in scores and "p_mcnemar" not in scores
    assert f"{older}: no eval/test.examples.tsv; score test of that run again" in captured.err


def test_another_file_is_scored_with_the_words_of_the_run(folder, capsys):
    path = folder / "more.tsv"
    path.write_text("entailment\tA wholly new sentence here.\tAnother.\n" * 3)
    scores = printed(capsys, "--workdir", str(folder / "run"), "--data", str(path))
    assert (scores["split"], scores["examples"]) == ("more", 3)


def test_pairs_are_labelled_on_standard_output(folder, monkeypatch, capsys):
    ask = functools.partial(commands.answers, monkeypatch, capsys)
    printed = ask(
        ["Two red cups.\tOne cup.", "Über 😀\tשלום"], "--workdir", folder / "run", "--explain"
    )
    answers = [json.loads(line) for line in printed]
    assert [set(answer) for answer in answers] == [
        {"label", "probabilities", "score", "words", "layers"}
    ] * 2
    assert answers[0]["words"] == [["two", "red", "cups", "."], ["one", "cup", "."]]


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"model.attention": "sideways"}, "model.attention='sideways': must be inter"),
        (
            {"data.format": "texts", "data.columns": "", "model.attention": "inter"},
            "model.attention=inter",
        ),
        ({"model.focus": "states"}, "model.energy=dot"),
        ({"data.labels": "one"}, "data.labels='one'"),
    ],
)
def test_an_invalid_config_is_one_line(folder, monkeypatch, capsys, changes, message):
    assert message in fails(monkeypatch, capsys, arguments(folder, "bad", **changes))


def test_too_little_memory_is_one_line(folder, monkeypatch, capsys):
    argv = arguments(folder, "vast", **{"model.dim": 8_000_000, "words.dim": 1})
    monkeypatch.setattr(sys, "argv", ["launch", *argv])
    with pytest.raises(SystemExit) as exit_:
        cli.run(train.main)
    assert exit_.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"error: Out of memory allocating \d+ bytes \(smaller .* need less\)", line)


@pytest.mark.slow
def test_exports_answer_as_the_run_does(folder, monkeypatch, capsys):
    pairs = [f"{p}\t{h}" for p, h, _ in generate(6, 5, "test")]
    ask = functools.partial(commands.answers, monkeypatch, capsys, pairs)
    exports = commands.exports(folder)
    expected = ask("--workdir", folder / "run", "--explain")
    for model in exports.values():
        assert commands.same_answers(ask("--model", model, "--explain"), expected)
    alone = commands.answered_without_a_model(exports["stablehlo"], pairs, "--explain")
    assert commands.same_answers(alone, expected)


def test_report_has_confusion_lengths_and_p(folder, capsys):
    page = commands.reported(folder, "run", "run1")
    assert commands.titles(page)[-4:] == [
        "Sentence classification: differences on test",
        "Sentence classification: length on test",
        "Sentence classification: confusion on test",
        "Sentence classification: pictures of an example of test",
    ]
    assert "run: attended words" in page and "run1: attended words" in page
    capsys.readouterr()
    evaluate.main(["--workdir", str(folder / "run1"), "--against", str(folder / "run")])
    scores = json.loads(capsys.readouterr().out)
    assert f'<td class="number">{scores["p_equal_proportions"]:.4f}</td>' in page
    low, high = scores["intervals"]["accuracy"]
    assert f"({low:.2f} to {high:.2f})" in page


def test_describe_counts_parameters_without_word_vectors(capsys):
    train.main(["--config", "configs/attconv/snli.py:cnn", "--describe"])
    *_, others, total = (line.split() for line in capsys.readouterr().out.splitlines())
    assert others[:4] == ["without", "word", "vectors", "635,403"]
    assert total[:2] == ["total", "12,635,403"]  # and 40,000 vectors of 300


def test_a_full_disk_is_one_line_without_the_libraries_tracebacks(folder):
    """A limit on the size of files, which acts as a full disk for the checkpoint of step 4."""
    pytest.importorskip("resource")
    shutil.copytree(folder / "run1", folder / "full")
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    command = f"{limited}from launch import cli, train; cli.run(train.main)"
    argv = [sys.executable, "-c", command, *arguments(folder, "full")]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True)
    *messages, error = done.stderr.splitlines()
    reason = "cannot be written: File too large; step 2 is safely saved"
    assert (done.returncode, error) == (2, f"error: {folder}/full/checkpoints: {reason}")
    assert len(messages) < 10 and "Traceback" not in done.stderr
