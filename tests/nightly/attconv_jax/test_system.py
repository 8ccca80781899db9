"""A system in one new file (`tests.systems.overlap`) and one config, through all commands."""

import functools
import json

import numpy as np
import pytest

from launch.export import __main__ as export
from launch.train import __main__ as train
from tests.launch import commands

CONFIG = """
from attconv_jax.config import Config, DataConfig, WordsConfig
from common_jax.config import to_config_dict
from tests.systems.overlap import Overlap


def get_config():
    data = DataConfig(source="generated", examples=24, holdout_size=8, batch_size=8, max_shapes=1)
    config = to_config_dict(Config(data=data, words=WordsConfig(dim=4, rows=60), model=Overlap()))
    config.paper.system = "overlap"
    config.train.steps = 4
    config.train.log_every = 1
    config.train.steps_per_call = 1
    return config
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overlap")
    (folder / "overlap.py").write_text(CONFIG)
    options = {"config": folder / "overlap.py", "workdir": folder / "run"}
    options |= {"config.data.cache_dir": folder / "cache", "config.mesh.data": 1}
    train.main([f"--{name}={value}" for name, value in options.items()])
    return folder


def test_its_penalty_is_logged_by_name_and_in_the_loss(folder):
    lines = map(json.loads, (folder / "run" / "metrics.jsonl").read_text().splitlines())
    logged = [line for line in lines if "grad_norm" in line]
    assert len(logged) == 4
    for line in logged:
        assert line["pooled_square"] > 0
        assert line["loss"] == pytest.approx(line["nll"] + line["pooled_square"], rel=1e-5)


def test_its_exports_explain_as_the_run_does(folder, monkeypatch, capsys):
    ask = functools.partial(commands.answers, monkeypatch, capsys, ["A red cup.\tA cup is red."])
    (line,) = ask("--workdir", folder / "run", "--explain")
    answer = json.loads(line)
    assert set(answer) == {"label", "probabilities", "score", "words", "layers"}
    looked = [(attention["text"], attention["context"]) for attention in answer["layers"][0]]
    assert looked == [(None, 0), (None, 1)]
    for attention, words in zip(answer["layers"][0], answer["words"], strict=True):
        assert np.shape(attention["weights"]) == (1, len(words))
        assert np.sum(attention["weights"]) == pytest.approx(1, abs=1e-3)
    for form in ("stablehlo", "safetensors"):
        out = folder / form
        export.main(["--workdir", str(folder / "run"), "--out", str(out), "--format", form])
        assert commands.same_answers(ask("--model", out, "--explain"), [line])
