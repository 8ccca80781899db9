"""A translator in CTranslate2's format."""

import functools
import json

from launch.export import __main__ as export
from launch.predict import __main__ as predict
from launch.train import __main__ as train
from tests.families.runs import FAMILIES
from tests.launch import commands
from tests.launch.commands import fails
from tests.launch.test_csan import LINES


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
