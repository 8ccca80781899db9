"""All commands on CSAN with the toy attentions of tests/systems, from a config file alone."""

import csv
import functools
import json

import numpy as np
import pytest

from common_jax.deploy import load
from launch import evaluate, train
from launch.sweep import __main__ as sweep
from tests.launch import commands
from tests.launch.commands import fails
from tests.launch.test_csan import TINY

CONFIG = """
from common_jax.config import to_config_dict
from configs.csan import quickstart
from tests.systems.nearness import Nearness
from tests.systems.recent import Recent


def get_config():
    config = quickstart.get_config()
    config.model.encoder_attention = to_config_dict(Nearness(local_layers=1))
    config.model.decoder_attention = to_config_dict(Recent())
    config.paper.system = "toy"
    return config
"""
LINES = ["The train leaves at noon.", "", "Three cats"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy_systems")
    (folder / "toy.py").write_text(CONFIG)
    train.main(arguments(folder))
    return folder


def arguments(folder, **changes):
    changes = TINY | {"decode.beam_size": 3, "data.batching": "packed"} | changes
    return commands.arguments(str(folder / "toy.py"), folder, **changes)


def test_they_are_trained_and_evaluated_by_greedy_and_beam_search(folder, capsys):
    result = json.loads((folder / "run" / "result.json").read_text())
    assert np.isfinite(list(result["metrics"]["test"].values())).all()
    evaluate.main(["--workdir", str(folder / "run")])
    printed = json.loads(capsys.readouterr().out)
    assert printed["nll"] == pytest.approx(result["metrics"]["test"]["nll"], rel=1e-5)
    greedy, wide = ([*map(str, load(folder / "run", beam_size=k).predict(LINES))] for k in (1, 3))
    assert greedy[1] == wide[1] == "" and all(greedy[::2]) and all(wide[::2])


def test_an_export_answers_as_the_run(folder, monkeypatch, capsys):
    ask = functools.partial(commands.answers, monkeypatch, capsys)
    model = commands.exports(folder, "--beam_size", "3", "--beam_size", "1")["stablehlo"]
    for lines, beam in ((LINES, "1"), ([*LINES, "one two three " * 9], "3")):
        flags = "--beam_size", beam
        run = ask(lines, "--workdir", folder / "run", *flags)
        assert ask(lines, "--model", model, *flags) == run


def test_a_window_is_refused_by_name(folder, monkeypatch, capsys):
    argv = [*arguments(folder), "--config.model.token_window=5"]
    message = "config key 'model.token_window': tests.systems.nearness:Nearness has no token_window"
    assert message in fails(monkeypatch, capsys, argv)


@pytest.mark.slow
def test_they_are_swept(folder, tmp_path, monkeypatch):
    commands.share_with_trials(monkeypatch)
    argv = arguments(folder, **{"train.steps": 1, "decode.beam_size": 1})
    argv = argv[: argv.index("--workdir")]
    grid = ["--grid", "model.encoder_attention.start=0.25", "--out", str(tmp_path)]
    sweep.main([*argv, *grid])
    with (tmp_path / "results.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["state"] == "finished" and row["model.encoder_attention.start"] == "0.25"
