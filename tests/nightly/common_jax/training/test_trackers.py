"""Trackers with their real packages: one record of a killed and resumed run, and outages."""

import importlib.util
import json
import logging
import os
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time

import pytest

from common_jax.training.trackers import tracker_class
from common_jax.training.trackers.process import TrackerProcess
from tests.common_jax.training.test_trackers import CONFIG, REMOTE
from tests.launch.tiny_runs import RHYTHM, ROOT, SMALL, lines, numbers, start


def needs(name):
    if importlib.util.find_spec(tracker_class(name).package) is None:
        pytest.skip(f"needs the extra {name}")


@pytest.fixture(autouse=True)
def services(tmp_path, monkeypatch):
    """Each tracker writes to a folder of its own, without a server."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlflow").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)


def leveldb_records(path):
    """The records of a file in LevelDB's log format, after a header of 7 bytes: in blocks of 32 KiB
    a checksum, a length, and a type (1: complete; 2, 3, 4: first, middle, last part)."""
    content, at, record = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        length, part = struct.unpack("<HB", content[at + 4 : at + 7])
        if 32768 - at % 32768 < 7 or not part:
            at += 32768 - at % 32768
            continue
        record += content[at + 7 : at + 7 + length]
        at += 7 + length
        if part in (1, 4):
            yield record
            record = b""


def wandb_rows(tmp_path):
    """Per run id, (step, name, value) of all its offline folders, oldest first."""
    from wandb.proto.wandb_internal_pb2 import Record

    rows = {}
    for file in sorted(tmp_path.rglob("offline-run-*/*.wandb")):
        records = [Record.FromString(record) for record in leveldb_records(file)]
        (run,) = {r.run.run_id for r in records if r.WhichOneof("record_type") == "run"}
        for record in records:
            items = {
                i.key or i.nested_key[0]: json.loads(i.value_json) for i in record.history.item
            }
            numbers = {k: v for k, v in items.items() if not k.startswith("_")}
            rows.setdefault(run, []).extend((items["_step"], k, v) for k, v in numbers.items())
    return rows


def trackio_rows(tmp_path):
    (file,) = (tmp_path / "trackio").glob("*.db")
    rows = {}
    with sqlite3.connect(file) as database:
        for run, step, metrics in database.execute("SELECT run_name, step, metrics FROM metrics"):
            rows.setdefault(run, []).extend((step, *item) for item in json.loads(metrics).items())
    return rows


def mlflow_rows(tmp_path):
    rows = {}
    for file in (tmp_path / "mlflow").rglob("metrics/**/*"):
        run, _, *name = file.relative_to(tmp_path / "mlflow").parts[1:]
        for line in file.read_text().splitlines() if file.is_file() else ():
            _, value, step = line.split()
            rows.setdefault(run, []).append((int(step), "/".join(name), float(value)))
    return rows


def mlflow_config(tmp_path):
    return {p.name: p.read_text() for p in (tmp_path / "mlflow").glob("*/*/params/*")}


ROWS = {"wandb": wandb_rows, "trackio": trackio_rows, "mlflow": mlflow_rows}

KILLED = """
import os, signal, sys
from pathlib import Path
from common_jax.training.trackers import tracker_class
from common_jax.training.trackers.process import TrackerProcess
config = {"train.steps": 8, "data.dir": "a"}
tracker = TrackerProcess(sys.argv[1], Path(sys.argv[2]), "killed", 0, config)
for step in (2, 4):
    tracker.log(step, {"train/loss": step / 4})
tracker.log(4, {"dev/accuracy": 50.0})
os.kill(os.getpid(), signal.SIGKILL)
"""


def written(folder):
    return json.loads((folder / "record.json").read_text())


@pytest.mark.parametrize("name", REMOTE)
def test_a_killed_and_resumed_run_is_one_record(name, tmp_path):
    """After SIGKILL the tracker's process writes what it was given; steps that the resumed run
    repeats are written once, and the others follow."""
    needs(name)
    folder = tmp_path / "run" / "trackers" / name
    command = [sys.executable, "-c", KILLED, name, str(folder)]
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert killed.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 120
    while not (folder / "record.json").exists() or written(folder)["step"] < 4:
        assert time.monotonic() < deadline, (folder / "output.log").read_text()
        time.sleep(0.05)
    time.sleep(0.5)  # the process ends after that
    resumed = TrackerProcess(name, folder, "killed", 2, CONFIG)
    for step in (4, 6):
        resumed.log(step, {"train/loss": step / 4})
    resumed.log(6, {"dev/accuracy": 75.0})
    resumed.log(6, {"final/dev/accuracy": 75.0, "final/test/accuracy": 70.0})
    resumed.close()
    ((run, rows),) = ROWS[name](tmp_path).items()
    assert written(folder)["id"] in run or name == "mlflow"
    expected = [(2, "train/loss", 0.5), (4, "train/loss", 1.0), (4, "dev/accuracy", 50.0)]
    expected += [(6, "train/loss", 1.5), (6, "dev/accuracy", 75.0)]
    finals = [(6, "final/dev/accuracy", 75.0), (6, "final/test/accuracy", 70.0)]
    assert sorted(rows) == sorted(expected + finals)
    if name == "wandb":
        assert len([*tmp_path.rglob("offline-run-*/*.wandb")]) == 2
        assert [step for step, *_ in rows] == sorted(step for step, *_ in rows)
    if name == "mlflow":
        assert mlflow_config(tmp_path) == {"train.steps": "8", "data.dir": "a"}


def test_a_run_that_begins_anew_is_another_record(tmp_path):
    needs("trackio")
    for loss in (1.0, 2.0):
        tracker = TrackerProcess("trackio", tmp_path / "run", "run", 0, CONFIG)
        tracker.log(2, {"train/loss": loss})
        tracker.close()
    rows = sorted(trackio_rows(tmp_path).values())
    assert rows == [[(2, "train/loss", 1.0)], [(2, "train/loss", 2.0)]]


def away(name, monkeypatch, address):
    variables = {
        "wandb": {"WANDB_BASE_URL": address, "WANDB_API_KEY": "a" * 40, "WANDB_MODE": "online"},
        "trackio": {"TRACKIO_SERVER_URL": f"{address}?write_token=x"},
        "mlflow": {"MLFLOW_TRACKING_URI": address, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"},
    }
    for variable, value in variables[name].items():
        monkeypatch.setenv(variable, value)


@pytest.mark.parametrize("name", REMOTE)
def test_a_server_that_is_away_is_one_warning(name, tmp_path, monkeypatch, caplog):
    needs(name)
    away(name, monkeypatch, "http://127.0.0.1:9")
    tracker = TrackerProcess(name, tmp_path / "run", "run", 0, CONFIG, seconds=60)
    started = time.monotonic()
    for step in range(1000):
        tracker.log(step, {"train/loss": 1.0})
    assert time.monotonic() - started < 2
    tracker.close()
    (warning,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert warning.startswith(f"{name}: ") and warning.endswith("output.log)")
    assert "\n" not in warning
    if name == "wandb":  # goes on offline
        ((_, rows),) = wandb_rows(tmp_path).items()
        assert rows == [(step, "train/loss", 1.0) for step in range(1000)]


def test_a_server_that_does_not_answer_costs_the_limit(tmp_path, monkeypatch, caplog):
    needs("mlflow")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away("mlflow", monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        tracker = TrackerProcess("mlflow", tmp_path / "run", "run", 0, CONFIG, seconds=3)
        tracker.log(1, {"train/loss": 1.0})
        started = time.monotonic()
        tracker.close()
        assert time.monotonic() - started < 7
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("mlflow: not all is sent")


def test_a_process_that_stands_still_blocks_nothing(tmp_path, caplog):
    tracker = TrackerProcess("wandb", tmp_path / "run", "run", 0, {}, seconds=1)
    os.kill(tracker._process.pid, signal.SIGSTOP)
    for step in range(5000):
        tracker.log(step, {"train/loss": 1.0})
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("wandb: its process does not read")
    os.kill(tracker._process.pid, signal.SIGKILL)
    tracker.close()
    assert len(caplog.records) == 1


def test_a_killed_and_resumed_command_is_one_record(tmp_path):
    """Its numbers are those of metrics.jsonl, once each."""
    needs("trackio")
    overrides = {**RHYTHM, **SMALL["attconv"], "data.cache_dir": tmp_path / "corpus"}
    overrides["train.trackers"] = "trackio"
    run, config = tmp_path / "run", "configs/attconv/quickstart.py"
    begin = lambda: start(config, overrides, run, 1, tmp_path / "errors", folder=tmp_path)
    killed = begin()
    log = run / "metrics.jsonl"
    while not log.exists() or all(line["step"] < 16 for line in lines(run)):
        assert killed.poll() is None, (tmp_path / "errors").read_text()
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert begin().wait() == 0, (tmp_path / "errors").read_text()
    ((_, rows),) = trackio_rows(tmp_path).items()
    logged = [line["step"] for line in numbers(run) if "split" not in line]
    assert sorted(step for step, name, _ in rows if name == "train/loss") == logged
