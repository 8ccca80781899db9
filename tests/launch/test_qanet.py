"""The commands from outside, on a QANet too small to learn: train, evaluate, predict."""

import io
import json
import os
import sys
from pathlib import Path

import pytest

from common_jax.training.run import load
from launch import evaluate, predict, train
from tests.launch.commands import fails

TINY = {
    "data.examples": 40,
    "data.heldout": 6,
    "data.batch_size": 4,
    "data.max_shapes": 1,
    "model.dim": 8,
    "model.num_heads": 2,
    "model.word_dim": 6,
    "model.char_dim": 4,
    "model.word_rows": 60,
    "model.embedding_convs": 1,
    "model.model_convs": 1,
    "model.model_blocks": 1,
    "train.steps": 4,
    "train.evaluate_every": 2,
    "train.checkpoint_every": 2,
    "train.log_every": 1,
    "optimizer.cooldown_steps": 0,
    "mesh.data": 1,
}


def arguments(folder, run="run", **changes):
    values = {**TINY, "data.cache_dir": folder / "cache", **changes}
    overrides = [f"--config.{key}={value}" for key, value in values.items()]
    workdir = ["--workdir", str(folder / run)]
    return ["--config", "configs/qanet/quickstart.py", *overrides, *workdir]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("qanet")
    train.main(arguments(folder))
    return folder


def result(run):
    return json.loads((run / "result.json").read_text())


def test_train_leaves_the_files_of_the_contract(folder):
    run = folder / "run"
    assert set(result(run)["metrics"]) == {"dev", "test"}
    assert set(result(run)["metrics"]["test"]) == {"exact_match", "f1"}
    answers = json.loads((run / "eval" / "test.predictions.json").read_text())
    assert len(answers) == 6 and all(answers.values())


def test_interrupted_equals_uninterrupted(folder):
    for steps in (2, 4):
        train.main(arguments(folder, "again", **{"train.steps": steps}))
    again = result(folder / "again")
    assert again["resumed_from"] == [2]
    for name in ("parameters_sha256", "metrics"):
        assert again[name] == result(folder / "run")[name]


def test_evaluate_repeats_the_final_score(folder, capsys):
    evaluate.main(["--workdir", str(folder / "run")])
    printed = json.loads(capsys.readouterr().out)
    assert printed["split"] == "test"
    for name, value in result(folder / "run")["metrics"]["test"].items():
        assert printed[name] == pytest.approx(value)


def ask(monkeypatch, capsys, run, lines):
    stdin = io.TextIOWrapper(io.BytesIO("".join(f"{line}\n" for line in lines).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    predict.main(["--workdir", str(run), "--count", "2"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_questions_about_anybodys_text_are_answered_from_it(folder, monkeypatch, capsys):
    context = "Ada lives in Zürich. Ben, her 😀 brother, moved to Rome in 1950."
    questions = ["Where does Ada live?", "When did Ben move?"]
    lines = [json.dumps({"id": q, "context": context, "question": q}) for q in questions]
    answers = ask(monkeypatch, capsys, folder / "run", lines)
    assert [answer["id"] for answer in answers] == questions
    for answer in answers:
        assert len(answer["next"]) == 1
        for found in (answer, *answer["next"]):
            assert context[found["start"] : found["end"]] == found["answer"] != ""
            assert 0 < found["probability"] <= 1
    (folder / "context.txt").write_text(context + "\n", "utf-8")
    file = ["--context", str(folder / "context.txt"), "--question", questions[0]]
    predict.main(["--workdir", str(folder / "run"), *file])
    assert json.loads(capsys.readouterr().out)["answer"] == answers[0]["answer"]


def test_five_lines_of_python_do_the_same(folder):
    reader = load(folder / "run", count=1)
    (found,) = reader.answer("Ada lives in Rome.", "Where does Ada live?")
    assert found.text in "Ada lives in Rome."


def test_mistakes_are_one_line(folder, tmp_path, monkeypatch, capsys):
    run = ["--workdir", str(folder / "run")]
    for argv, main, words in (
        ([*run, "--beam_size", "2"], predict.main, "no option beam_size; it has count"),
        ([*run, "--question", "What?"], predict.main, "--context and --question belong together"),
        ([*run, "--context", "no/file", "--question", "What?"], predict.main, "no/file"),
        ([*run, "--split", "train"], evaluate.main, "dev | test"),
        (["--task", "squad"], evaluate.main, "--task needs --predictions and --data"),
        ([], evaluate.main, "give --workdir, or --task"),
        (arguments(tmp_path, **{"model.word_rows": 0}), train.main, "data.vectors"),
        (arguments(tmp_path, **{"data.stride": 400}), train.main, "data.stride=400"),
    ):
        assert words in fails(monkeypatch, capsys, argv, main)


@pytest.mark.skipif("REAL_DATA" not in os.environ, reason="REAL_DATA is not set")
def test_a_published_systems_predictions_have_its_scores(capsys):
    squad = Path(os.environ["REAL_DATA"]) / "squad"
    answers = squad / "dev-predictions-match-lstm-ensemble.json.gz"
    dev = squad / "dev-v1.1.json.gz"
    evaluate.main(["--task", "squad", "--predictions", str(answers), "--data", str(dev)])
    scores = json.loads(capsys.readouterr().out)
    assert scores["questions"] == 10_570
    assert round(scores["exact_match"], 3) == 67.635 and round(scores["f1"], 3) == 76.756


SQUAD = {
    "broken": ('{"data": [', "dev.json:1:", "not JSON"),
    "shape": ('{"data": [{"paragraphs": [{"qas": []}]}]}', "data[0].paragraphs[0]", "context"),
    "elsewhere": (
        '{"data": [{"paragraphs": [{"context": "a b c", "qas": [{"id": "1", "question": "q",'
        ' "answers": [{"text": "b", "answer_start": 0}]}]}]}]}',
        "data[0].paragraphs[0].qas[0].answers[0]",
        "",
    ),
    "none": ("[]", "dev.json", "object"),
}


@pytest.mark.parametrize("name", SQUAD)
def test_broken_questions_are_one_line_that_names_the_place(name, tmp_path, monkeypatch, capsys):
    text, place, words = SQUAD[name]
    (tmp_path / "dev.json").write_text(text)
    (tmp_path / "answers.json").write_text("{}")
    files = ["--predictions", str(tmp_path / "answers.json"), "--data", str(tmp_path / "dev.json")]
    line = fails(monkeypatch, capsys, ["--task", "squad", *files], evaluate.main)
    assert place in line and words in line
