"""Exports of each family in all formats, and weights of files."""

import functools
import json

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
from tests.launch.test_decoding_options import scored
from tests.launch.tiny_runs import result


def asked(context, question):
    return json.dumps({"context": context, "question": question})


STORY, OTHER = generate(2, 5, "test").contexts
QUESTIONS = [  # one of several windows, and one with fewer words than spans that are asked for
    asked(STORY, "Who was there?"),
    asked(f"{OTHER} " * 20, "what?"),
    asked("one", "two"),
]
PAIRS = [f"{premise}\t{text}" for premise, text, _ in generate_pairs(6, 5, "test")]
ASKED = {  # lines, options of the export, options of the answers
    "csan": (LINES, (), ()),
    "qanet": (QUESTIONS, ("--count", "5"), ("--count", "5")),
    "attconv": (PAIRS, (), ("--explain",)),
}


@pytest.mark.parametrize("family", ASKED)
def test_exports_in_each_format_answer_as_the_run_does(family, tiny, tmp_path, monkeypatch, capsys):
    folder = tiny(family, tmp_path)
    lines, compiled, options = ASKED[family]
    ask = functools.partial(commands.answers, monkeypatch, capsys, lines)
    expected = ask("--workdir", folder / "run", *options)
    exports = commands.exports(folder, *compiled)
    answered = [ask("--model", model, *options) for model in exports.values()]
    answered.append(commands.answered_without_a_model(exports["stablehlo"], lines, *options))
    for answers in answered:
        if family == "csan":
            assert answers == expected
        else:
            assert commands.same_answers(answers, expected)
    if family == "qanet":
        assert [len(json.loads(line)["next"]) for line in expected] == [4, 4, 0]
        fewer = ask("--workdir", folder / "run", "--count", "2")
        assert commands.same_answers(ask("--model", exports["stablehlo"], "--count", "2"), fewer)
        with pytest.raises(UserError, match="has no program for count=6, but for count=5"):
            ask("--model", exports["stablehlo"], "--count", "6")


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


def test_an_export_has_one_value_of_each_option_and_refuses_others(tiny, tmp_path):
    translator = tiny("csan", tmp_path / "own") / "run"
    plain, changed = tiny.exported("csan", tmp_path / "plain"), tmp_path / "changed"
    argv = ["--workdir", str(translator), "--beam_size", "2", "--out", str(changed)]
    export.main([*argv, "--length_penalty", "0"])
    close = lambda scores: [pytest.approx(row, abs=2e-4) for row in scores]
    assert scored(changed) == close(scored(translator, length_penalty=0.0))
    assert scored(changed, length_penalty=0.0) == scored(changed)
    assert scored(plain) == close(scored(translator))
    message = r"has no program for beam_size=2, .*length_penalty=0.0.*launch\.export makes others"
    with pytest.raises(UserError, match=message):
        scored(plain, length_penalty=0.0)
