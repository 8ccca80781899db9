"""Exports of each family in all formats, a browser, a full disk, weights of files, a sweep."""

import functools
import json
import os
import subprocess
import sys

import pytest

from attconv_jax.data.synthetic import generate as generate_pairs
from common_jax.errors import UserError
from launch import augment
from launch.export import __main__ as export
from launch.predict import __main__ as predict
from launch.train import __main__ as train
from qanet_jax.data.synthetic import generate
from tests.families.runs import FAMILIES
from tests.launch import commands, test_augment
from tests.launch.commands import fails
from tests.launch.test_csan import LINES
from tests.launch.tiny_runs import result


def test_a_translators_exports_are_made_in_each_format(tiny, tmp_path, monkeypatch, capsys):
    folder = tiny("csan", tmp_path)
    expected = commands.answers(monkeypatch, capsys, LINES, "--workdir", folder / "run")
    for model in commands.exports(folder).values():
        answers = commands.answers(monkeypatch, capsys, LINES, "--model", model)
        assert answers == expected


def test_a_classifiers_exports_answer_as_the_run_does(tiny, tmp_path, monkeypatch, capsys):
    folder = tiny("attconv", tmp_path)
    pairs = [f"{p}\t{h}" for p, h, _ in generate_pairs(6, 5, "test")]
    ask = functools.partial(commands.answers, monkeypatch, capsys, pairs)
    exports = commands.exports(folder)
    expected = ask("--workdir", folder / "run", "--explain")
    for model in exports.values():
        assert commands.same_answers(ask("--model", model, "--explain"), expected)
    alone = commands.answered_without_a_model(exports["stablehlo"], pairs, "--explain")
    assert commands.same_answers(alone, expected)


def test_a_readers_exports_answer_as_the_run_does(tiny, tmp_path, monkeypatch, capsys):
    folder = tiny("qanet", tmp_path)
    squad = generate(1, 5, "test")
    questions = [(squad.contexts[0], squad.questions[0].text)]
    lines = [json.dumps({"context": c, "question": q}) for c, q in questions]
    ask = functools.partial(commands.answers, monkeypatch, capsys)
    model = commands.exports(folder, "--count", "5")["stablehlo"]
    expected = ask(lines, "--workdir", folder / "run", "--count", "2")
    assert json.loads(expected[0])["answer"] and len(json.loads(expected[0])["next"]) == 1
    assert commands.same_answers(ask(lines, "--model", model, "--count", "2"), expected)
    # several windows; fewer words than requested spans
    questions += [(f"{squad.contexts[0]} " * 20, "what?"), ("one", "two")]
    lines = [json.dumps({"context": c, "question": q}) for c, q in questions]
    expected = ask(lines, "--workdir", folder / "run", "--count", "5")
    assert [len(json.loads(line)["next"]) for line in expected] == [4, 4, 0]
    alone = commands.answered_without_a_model(model, lines, "--count", "5")
    assert commands.same_answers(alone, expected)
    with pytest.raises(UserError, match="has no program for count=6, but for count=5"):
        ask(lines, "--model", model, "--count", "6")


def test_a_full_disk_is_one_line_without_the_libraries_tracebacks(tiny, tmp_path):
    """A limit on the size of files, which acts as a full disk for the checkpoint of step 6."""
    pytest.importorskip("resource")
    folder = tiny("attconv", tmp_path)
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    command = (
        f"{limited}from launch import cli\nfrom launch.train.__main__ import main\ncli.run(main)"
    )
    longer = FAMILIES["attconv"].arguments(folder, **{"train.steps": 6})
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", command, *longer],
        cwd=commands.ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    *messages, error = done.stderr.splitlines()
    reason = "cannot be written: File too large; step 4 is safely saved"
    assert (done.returncode, error) == (2, f"error: {folder}/run/checkpoints: {reason}")
    assert len(messages) < 10 and "Traceback" not in done.stderr


def test_weights_of_one_and_zero_are_plain_training(tiny, tmp_path):
    folder = test_augment.with_paraphrases(tiny("qanet", tmp_path))
    augment.main(test_augment.arguments(folder))
    for run, weights in (("weighted", "1,0"), ("mixed", "1,1")):
        fields = {"data.train": "train.json,new.json", "data.weights": weights}
        train.main(FAMILIES["qanet"].arguments(folder, run, **fields))
    plain, weighted, mixed = (
        result(folder / run)["parameters_sha256"] for run in ("run", "weighted", "mixed")
    )
    assert weighted == plain != mixed


def test_ctranslate2_answers_as_the_run_does(tiny, tmp_path, monkeypatch, capsys):
    folder = FAMILIES["csan"].written(tmp_path)
    train.main(FAMILIES["csan"].arguments(folder, **{"model.encoder_attention.local_layers": 0}))
    out = folder / "engine"
    run = ["--workdir", str(folder / "run")]
    argv = [*run, "--out", str(out), "--format", "ctranslate2"]
    capsys.readouterr()
    assert "--length_penalty 0" in fails(monkeypatch, capsys, argv, export.main)
    export.main([*argv, "--length_penalty", "0"])
    search = ["--length_penalty", "0", "--n_best", "2", "--beam_size", "2"]
    ask = functools.partial(commands.answers, monkeypatch, capsys, LINES)
    assert ask("--model", out) == ask(*run, "--length_penalty", "0")
    actual = [json.loads(line) for line in ask("--model", out, *search[2:])]
    expected = [json.loads(line) for line in ask(*run, *search)]
    hypotheses = [answer["hypotheses"] for answer in actual]
    assert hypotheses == [commands.close(answer["hypotheses"], 1e-3) for answer in expected]
    penalised = ["--model", str(out), "--length_penalty", "0.6"]
    assert "another length penalty; 0 only" in fails(monkeypatch, capsys, penalised, predict.main)
