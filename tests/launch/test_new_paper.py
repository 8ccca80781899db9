"""A new paper needs only a config and a task for all commands (docs/adding_a_paper.md)."""

import pytest
from starlette.testclient import TestClient

from common_jax.deploy import load_model
from common_jax.errors import UserError
from launch.export import __main__ as export
from launch.predict import __main__ as predict
from launch.serve.app import Service
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from launch.serve.models import served
from launch.train import __main__ as train
from tests.launch.commands import answers, arguments, toy_config

LINES = ["123", "456", "123"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fourth")
    train.main(arguments(toy_config(folder), folder, **{"train.steps": 4, "mesh.data": 1}))
    return folder / "run"


def test_it_answers_lines_and_is_served(run, monkeypatch, capsys):
    lines = answers(monkeypatch, capsys, LINES, "--workdir", run)
    assert len([float(line) for line in lines]) == 3
    limits, metrics = Limits(), Metrics()
    model = served("sums", load_model(str(run)), limits, metrics)
    with TestClient(Service([model], limits, metrics, log=False)) as client:
        assert "<textarea" in client.get("/models/sums").text
        body = {"inputs": [LINES[0], {"text": LINES[1]}, LINES[2]]}
        outputs = client.post("/v1/models/sums:predict", json=body).json()["outputs"]
    assert [output["output"] for output in outputs] == lines


def test_its_option_is_a_flag_of_the_commands(run, tmp_path, monkeypatch, capsys):
    export.main(["--workdir", str(run), "--out", str(tmp_path / "export")])

    def answer(*argv):
        (line,) = answers(monkeypatch, capsys, LINES[:1], *argv)
        return float(line)

    for model in (("--workdir", run), ("--model", tmp_path / "export")):
        assert answer(*model, "--times", 3) == pytest.approx(3 * answer(*model), abs=0.2)
    with pytest.raises(SystemExit):
        predict.main(["--workdir", str(run), "--help"])
    assert "--times N" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(UserError, match="no option beam_size; it has times"):
        predict.main(["--workdir", str(run), "--beam_size", "4"])
