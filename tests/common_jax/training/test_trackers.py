"""Which trackers a run feeds; one with its real package (the others: tests/nightly)."""

import importlib.util
import sys
from unittest import mock

import pytest

from common_jax.config import TRACKERS, TrainConfig
from common_jax.errors import UserError
from common_jax.training.identity import identity, result_fields
from common_jax.training.log import MetricsLog
from common_jax.training.run_folder import RunFolder
from common_jax.training.trackers import require_installed
from common_jax.training.trackers.process import TrackerProcess
from tests.launch.commands import fails, toy_config
from tests.toy import ToyConfig, changed

REMOTE = [name for name in TRACKERS if name != "tensorboard"]
CONFIG = {"train.steps": 8, "data.dir": "a"}


def test_a_process_that_dies_is_one_warning(tmp_path, caplog):
    tracker = TrackerProcess("trackio", tmp_path / "run", "run", 0, {})
    tracker._process.kill()
    tracker._process.wait()
    tracker.log(1, {"train/loss": 1.0})
    tracker.log(2, {"train/loss": 1.0})
    tracker.close()
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("trackio: ")


@pytest.fixture
def opened(monkeypatch):
    """The arguments of the trackers that logs open, and mocks in the place of their processes."""
    opened = []

    def start(*arguments):
        opened.append((arguments, mock.create_autospec(TrackerProcess, instance=True)))
        return opened[-1][1]

    monkeypatch.setattr("common_jax.training.log.TrackerProcess", start)
    return opened


def test_the_log_feeds_the_trackers_that_are_named(opened, tmp_path):
    log = MetricsLog(RunFolder(tmp_path), 0, ("wandb", "mlflow"), CONFIG)
    log.write(2, {"loss": 1.0, "tokens": 3})
    log.write(2, {"split": "dev", "accuracy": 50.0})
    log.write_final(2, {"dev": {"accuracy": 50.0}, "test": {"accuracy": 40.0}})
    log.close()
    assert not (tmp_path / "tensorboard").exists()
    calls = [
        mock.call.log(2, {"train/loss": 1.0, "train/tokens": 3}),
        mock.call.log(2, {"dev/accuracy": 50.0}),
        mock.call.log(2, {"final/dev/accuracy": 50.0, "final/test/accuracy": 40.0}),
        mock.call.end(),
        mock.call.close(),
    ]
    assert [(arguments, tracker.mock_calls) for arguments, tracker in opened] == [
        ((name, tmp_path / "trackers" / name, tmp_path.name, 0, CONFIG), calls)
        for name in ("wandb", "mlflow")
    ]


def test_only_the_first_process_of_a_run_writes(opened, tmp_path, monkeypatch):
    for name, value in {
        "log.is_first": False,
        "multihost.is_first": False,
        "multihost.is_multiprocess": True,
        "multihost._receive": {"value": [[], 0.0, 0]},
    }.items():
        monkeypatch.setattr(f"common_jax.training.{name}", lambda *_, value=value: value)
    log = MetricsLog(RunFolder(tmp_path), 0, ("wandb", "tensorboard"), CONFIG)
    log.write(2, {"loss": 1.0})
    log.write_final(2, {"dev": {"loss": 1.0}})
    log.close()
    assert opened == [] and [*tmp_path.iterdir()] == []


def test_names_are_checked():
    assert TrainConfig().tracker_names == ("tensorboard",)
    assert TrainConfig(trackers="").tracker_names == ()
    assert TrainConfig(trackers="wandb, mlflow,wandb").tracker_names == ("wandb", "mlflow")
    with pytest.raises(UserError, match="no tracker ''; known here: mlflow, tensorboard"):
        TrainConfig(trackers="wandb,")


def test_a_resumed_run_can_have_other_trackers():
    config = ToyConfig()
    other = changed(config, "train", trackers="wandb")
    assert identity(other) == identity(config)
    assert result_fields(other) == result_fields(config)


def test_a_missing_package_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "wandb").mkdir()  # a folder of runs
    for name in REMOTE:
        monkeypatch.delitem(sys.modules, name, raising=False)
        with pytest.raises(UserError, match=rf"not installed; .*\[{name}\]'\)$"):
            require_installed([name])


def test_a_missing_package_is_one_line_before_anything_is_prepared(tmp_path, monkeypatch, capsys):
    find_spec = importlib.util.find_spec
    hidden = lambda name, *rest: None if name == "wandb" else find_spec(name, *rest)
    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    config = toy_config(tmp_path, {"train.trackers": "tensorboard,wandb"})
    cache = f"--config.data.cache_dir={tmp_path / 'cache'}"
    argv = ["--config", config, cache, "--workdir", str(tmp_path / "run")]
    before = sorted(tmp_path.rglob("*"))
    assert "train.trackers: wandb is not installed" in fails(monkeypatch, capsys, argv)
    assert sorted(tmp_path.rglob("*")) == before
