"""Trackers with their real packages: one record of a killed and resumed run, and outages."""

import importlib.util
import json
import os
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time

import pytest

from common_jax.training.log import MetricsLog
from common_jax.training.run_folder import RunFolder
from tests.common_jax.training.test_trackers import CONFIG, REMOTE, RESULT
from tests.launch.tiny_runs import ROOT


def needs(name):
    if importlib.util.find_spec(name) is None:
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


ROWS = {"wandb": wandb_rows, "trackio": trackio_rows, "mlflow": mlflow_rows}

KILLED = """
import os, signal, sys
from common_jax.training.log import MetricsLog
from common_jax.training.run_folder import RunFolder
log = MetricsLog(RunFolder(sys.argv[2]), 0, [sys.argv[1]], {"train.steps": 8, "data.dir": "a"})
for step in (2, 4):
    log.write(step, {"loss": step / 4})
log.write(4, {"split": "dev", "accuracy": 50.0})
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("name", REMOTE)
def test_a_killed_and_resumed_run_is_one_record(name, tmp_path):
    """After SIGKILL the tracker's process sends what the log has; steps that the resumed run
    repeats are sent once, and the others follow."""
    needs(name)
    run = tmp_path / "run"
    run.mkdir()
    command = [sys.executable, "-c", KILLED, name, str(run)]
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert killed.returncode == -signal.SIGKILL
    log = MetricsLog(RunFolder(run), 2, (name,), CONFIG)
    for step in (4, 6):
        log.write(step, {"loss": step / 4})
        log.write(step, {"split": "dev", "accuracy": 12.5 * step})
    RunFolder(run).result_file.write_text(json.dumps({"steps": 6, **RESULT}))
    log.close()
    log._trackers[0]._process.wait(60)
    ((record, rows),) = ROWS[name](tmp_path).items()
    stored = json.loads((run / "trackers" / name / "record.json").read_text())
    assert stored["id"] in record or name == "mlflow"
    assert sorted(rows) == [
        *[(2, "train/loss", 0.5), (4, "dev/accuracy", 50.0), (4, "train/loss", 1.0)],
        *[(6, "dev/accuracy", 75.0), (6, "final/dev/accuracy", 75.0)],
        *[(6, "final/test/accuracy", 70.0), (6, "train/loss", 1.5)],
    ]
    if name == "wandb":
        assert len([*tmp_path.rglob("offline-run-*/*.wandb")]) == 2
        assert [step for step, *_ in rows] == sorted(step for step, *_ in rows)
    if name == "mlflow":
        config = {p.name: p.read_text() for p in (tmp_path / "mlflow").glob("*/*/params/*")}
        assert config == {"train.steps": "8", "data.dir": "a"}


@pytest.mark.parametrize("answers", [False, True], ids=["away", "accepts without answering"])
@pytest.mark.parametrize("name", REMOTE)
def test_a_server_that_is_away_is_one_warning(name, answers, tmp_path, monkeypatch, caplog):
    """Without answers the end of the run takes five seconds at most."""
    needs(name)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1] if answers else 9}"
        for variable, value in {
            "MLFLOW_TRACKING_URI": address,
            "TRACKIO_SERVER_URL": f"{address}?write_token=x",
            "WANDB_BASE_URL": address,
            "WANDB_API_KEY": "a" * 40,
            "WANDB_MODE": "online",
        }.items():
            monkeypatch.setenv(variable, value)
        log = MetricsLog(RunFolder(tmp_path), 0, (name,), CONFIG)
        began = time.monotonic()
        for step in range(1000):
            log.write(step, {"loss": 1.0})
        assert time.monotonic() - began < 2
        began = time.monotonic()
        log.close()
        assert time.monotonic() - began < 5
        log._trackers[0]._process.wait(60)
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warning.startswith(f"{name}: ") and warning.endswith("output.log)")
    assert "\n" not in warning
    if name != "mlflow":  # the others store them on this machine
        ((_, rows),) = ROWS[name](tmp_path).items()
        assert rows == [(step, "train/loss", 1.0) for step in range(1000)]
