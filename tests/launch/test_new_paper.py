"""A new paper needs only a config and a task for all commands (docs/adding_a_paper.md)."""

import json

import pytest
from starlette.testclient import TestClient

from common_jax.deploy import load_model
from common_jax.errors import UserError
from launch import evaluate, export, predict, train
from launch.serve.app import Service
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from launch.serve.models import served
from tests.launch.commands import answers, toy_config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fourth")
    cache = f"--config.data.cache_dir={folder / 'cache'}"
    config = ["--config", toy_config(folder, {"train.steps": 4}), cache, "--config.mesh.data=1"]
    train.main([*config, "--workdir", str(folder / "run")])
    return folder / "run"


def test_it_is_trained_and_scored(run, capsys):
    metrics = json.loads((run / "result.json").read_text())["metrics"]
    evaluate.main(["--workdir", str(run)])
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"split": "test"} | {
        name: pytest.approx(value) for name, value in metrics["test"].items()
    }


def test_it_answers_lines(run, monkeypatch, capsys):
    lines = answers(monkeypatch, capsys, ["123", "456"], "--workdir", run)
    assert len([float(line) for line in lines]) == 2


def test_it_is_served(run, monkeypatch, capsys):
    limits, metrics = Limits(), Metrics()
    model = served("sums", load_model(str(run)), limits, metrics)
    with TestClient(Service([model], limits, metrics, log=False).app) as client:
        assert "<textarea" in client.get("/models/sums").text
        body = {"inputs": ["123", {"text": "456"}, "123"]}
        outputs = client.post("/v1/models/sums:predict", json=body).json()["outputs"]
    lines = answers(monkeypatch, capsys, ["123", "456", "123"], "--workdir", run)
    assert [output["output"] for output in outputs] == lines


def test_its_option_is_a_flag_of_the_commands(run, tmp_path, monkeypatch, capsys):
    export.main(["--workdir", str(run), "--out", str(tmp_path / "export")])

    def answer(*argv):
        (line,) = answers(monkeypatch, capsys, ["123"], *argv)
        return float(line)

    for model in (("--workdir", run), ("--model", tmp_path / "export")):
        assert answer(*model, "--times", 3) == pytest.approx(3 * answer(*model), abs=0.2)
    with pytest.raises(SystemExit):
        predict.main(["--workdir", str(run), "--help"])
    assert "--times N" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(UserError, match="no option beam_size; it has times"):
        predict.main(["--workdir", str(run), "--beam_size", "4"])
