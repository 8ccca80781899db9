"""A fourth paper: a config file and a task are all that the commands need (CONTRIBUTING.md)."""

import io
import json
import sys

import pytest

from launch import evaluate, predict, train

CONFIG = """
from common_jax.config import to_config_dict
from tests.toy import ToyConfig


def get_config():
    config = to_config_dict(ToyConfig())
    config.train.steps = 4
    return config
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fourth")
    (folder / "sums.py").write_text(CONFIG)
    cache = f"--config.data.cache_dir={folder / 'cache'}"
    config = ["--config", str(folder / "sums.py"), cache, "--config.mesh.data=1"]
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
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"123\n456\n")))
    predict.main(["--workdir", str(run)])
    assert len([float(line) for line in capsys.readouterr().out.splitlines()]) == 2
