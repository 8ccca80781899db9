"""Trackers of a run on the command line."""

import importlib.util
import signal
import sqlite3
import time

import pytest

from tests.launch import test_attconv
from tests.launch.commands import fails
from tests.launch.tiny_runs import RHYTHM, SMALL, lines, numbers, start


def test_a_tracker_that_is_not_installed_is_one_line_before_anything_is_prepared(
    tmp_path, monkeypatch, capsys
):
    find_spec = importlib.util.find_spec
    hidden = lambda name, *rest: None if name == "wandb" else find_spec(name, *rest)
    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    argv = [*test_attconv.arguments(tmp_path), "--config.train.trackers=tensorboard,wandb"]
    before = sorted(tmp_path.rglob("*"))
    line = fails(monkeypatch, capsys, argv)
    assert line == (
        "error: train.trackers: wandb is not installed; wandb needs the extra wandb "
        "(pip install 'conv-attention-jax[wandb]')"
    )
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.slow
def test_a_killed_and_resumed_run_is_one_record(tmp_path):
    """Its numbers are those of metrics.jsonl, once each."""
    pytest.importorskip("trackio", reason="needs the extra trackio")
    overrides = {**RHYTHM, **SMALL["attconv"], "data.cache_dir": tmp_path / "corpus"}
    overrides["train.trackers"] = "trackio"
    environment = {"TRACKIO_DIR": str(tmp_path / "trackio")}
    run, config = tmp_path / "run", "configs/attconv/quickstart.py"
    begin = lambda: start(
        config, overrides, run, 1, tmp_path / "errors", folder=tmp_path, environment=environment
    )
    killed = begin()
    while not (run / "metrics.jsonl").exists() or not any(
        line["step"] >= 16 for line in lines(run)
    ):
        assert killed.poll() is None, (tmp_path / "errors").read_text()
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert begin().wait() == 0, (tmp_path / "errors").read_text()
    with sqlite3.connect(next((tmp_path / "trackio").glob("*.db"))) as database:
        rows = database.execute("SELECT DISTINCT run_name FROM metrics").fetchall()
        steps = database.execute("SELECT step FROM metrics WHERE metrics LIKE '%train/loss%'")
        assert len(rows) == 1
        logged = [line["step"] for line in numbers(run) if "split" not in line]
        assert sorted(step for (step,) in steps) == logged
