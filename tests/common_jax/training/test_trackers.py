"""Which trackers a run feeds, and what they get after outages; slow: with their real packages."""

import importlib.util
import json
import os
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from unittest import mock

import pytest

from common_jax.config import TRACKERS, TrainConfig
from common_jax.errors import UserError
from common_jax.training import trackers
from common_jax.training.identity import identity, result_fields
from common_jax.training.log import MetricsLog, require_trackers
from common_jax.training.run_folder import RunFolder
from tests.launch.commands import fails, toy_config
from tests.launch.tiny_runs import ROOT
from tests.toy import ToyConfig, changed

REMOTE = [name for name in TRACKERS if name != "tensorboard"]
CONFIG = {"train.steps": 8, "data.dir": "a"}
RESULT = {  # fields that every result.json has
    **{"parameters": 1, "wall_seconds": 1.0, "devices": [], "versions": {}},
    "metrics": {"dev": {"accuracy": 75.0}, "test": {"accuracy": 70.0}},
}


@pytest.fixture
def opened(monkeypatch):
    """The arguments of the trackers that logs open, and mocks in their place."""
    opened = []

    def open_tracker(*arguments):
        tracker = mock.create_autospec(trackers.TrackerProcess, instance=True)
        opened.append((arguments, tracker))
        return tracker

    monkeypatch.setattr(trackers, "open_tracker", open_tracker)
    return opened


def test_the_log_feeds_the_trackers_that_are_named(opened, tmp_path):
    run = RunFolder(tmp_path)
    log = MetricsLog(run, 0, ("wandb", "mlflow"), CONFIG)
    log.write(2, {"loss": 1.0, "tokens": 3})
    log.write_final(2, {"dev": {"accuracy": 50.0}, "test": {"accuracy": 40.0}})
    log.close()
    final = {"split": "final", "dev/accuracy": 50.0, "test/accuracy": 40.0}
    calls = [
        mock.call.write({"step": 2, "loss": 1.0, "tokens": 3}),
        mock.call.write({"step": 2, **final}),
        mock.call.end(),
        mock.call.close(),
    ]
    assert [arguments for arguments, _ in opened] == [
        (name, run, 0, CONFIG) for name in ("wandb", "mlflow")
    ]
    assert all(tracker.mock_calls == calls for _, tracker in opened)


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


def test_a_run_without_trackers_does_not_need_their_file(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, trackers.__name__, None)
    require_trackers(())
    MetricsLog(RunFolder(tmp_path), 0, ()).close()
    with pytest.raises(ImportError):
        require_trackers(("tensorboard",))


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
        with pytest.raises(UserError, match=rf"{name} is not installed; .* \(.*{name}\)$"):
            require_trackers([name])


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


class Service:
    """A tracker whose server may be away."""

    location = "here"

    def __init__(self, folder):
        self.folder = folder
        self.away = False
        self.opened = []  # per attempt: the record's id, and whether the run had ended
        self.rows = []

    def __call__(self, run):
        self.opened.append((run.id, run.ended.is_set()))
        self._require()
        return self

    def log(self, step, numbers):
        self._require()
        self.rows += [(step, *item) for item in numbers.items()]

    def close(self):
        self._require()

    def _require(self):
        if self.away:
            raise ConnectionError("away")

    def line(self, step, **values):
        with (self.folder / "metrics.jsonl").open("a") as file:
            print(json.dumps({"step": step, **values}), file=file)

    def follow(self, *turns, start=0):
        """Follows the log, to which `turns` add; returns the levels of the messages."""
        turns = [*turns]
        messages = []
        ended = mock.create_autospec(threading.Event, instance=True)
        ended.is_set.side_effect = lambda: not turns
        ended.wait.side_effect = lambda _: bool(not turns or turns.pop(0)())
        arguments = {"name": "mlflow", "path": str(self.folder), "folder": str(self.folder)}
        arguments |= {"title": "run", "config": CONFIG, "start": start}
        trackers.TrackedRun(arguments, ended, lambda *m: messages.append(m[0])).follow()
        return messages


@pytest.fixture
def service(tmp_path, monkeypatch):
    service = Service(tmp_path)
    monkeypatch.setattr(trackers.pkgutil, "resolve_name", lambda _: service)
    return service


def test_a_server_that_is_away_at_first_gets_all_at_a_later_validation(service):
    service.away = True
    messages = service.follow(
        lambda: service.line(1, loss=1.0, note=None),
        lambda: service.line(1, split="dev", accuracy=50.0),
        lambda: service.line(2, loss=0.5),
        lambda: setattr(service, "away", False),
        lambda: service.line(2, split="dev", accuracy=60.0),
        lambda: service.line(3, loss=0.25),
    )
    assert messages == ["warning", "warning", "info"] and len(service.opened) == 3
    assert service.rows == [
        *[(1, "train/loss", 1.0), (1, "dev/accuracy", 50.0), (2, "train/loss", 0.5)],
        *[(2, "dev/accuracy", 60.0), (3, "train/loss", 0.25)],
    ]


def test_a_process_that_ended_goes_on_in_the_same_record_with_what_it_lacks(service):
    lines = (lambda: service.line(1, loss=1.0), lambda: service.line(1, split="dev", loss=2.0))
    with pytest.raises(ConnectionError):
        service.follow(
            *lines, lambda: setattr(service, "away", True), lambda: service.line(2, loss=3.0)
        )
    service.away = False
    service.line(2, resumed_from=2)
    service.line(3, loss=4.0)
    (service.folder / "result.json").write_text(json.dumps({"steps": 3, **RESULT}))
    service.follow(start=2)
    assert service.rows == [
        *[(1, "train/loss", 1.0), (1, "dev/loss", 2.0), (2, "train/loss", 3.0)],
        *[(3, "train/loss", 4.0), (3, "final/dev/accuracy", 75.0)],
        (3, "final/test/accuracy", 70.0),
    ]
    service.follow(start=0)
    first, resumed, anew = (id for id, _ in service.opened)
    assert first == resumed != anew and len(service.rows) == 12


def test_a_record_of_earlier_versions_is_continued(service):
    for step in (1, 2):
        service.line(step, loss=1.0)
        service.line(step, split="dev", loss=1.0)
    record = {"id": "ab", "step": 2, "groups": ["train"]}
    (service.folder / "record.json").write_text(json.dumps(record))
    service.follow(start=2)
    assert service.rows == [(2, "dev/loss", 1.0)] and service.opened == [("ab", True)]


@pytest.mark.parametrize(
    "code,status,starts,warning",
    [
        ("import time; time.sleep(60)", None, 1, "not all is sent"),
        ("import os; os.kill(os.getpid(), 9)", -9, 2, "its process has died"),
        ("print('info here'); print('warning away'); print('warning b'); exit(1)", 1, 2, "away"),
        ("import sys; sys.stdin.read()", None, 1, ""),
    ],
)
def test_a_process_delays_nothing_and_is_one_warning(
    code, status, starts, warning, tmp_path, monkeypatch, caplog
):
    started = []
    command = lambda *_: started.append(1) or [sys.executable, "-c", code]
    monkeypatch.setattr(trackers, "module_process", command)
    monkeypatch.setattr(trackers, "END_SECONDS", 2)
    tracker = trackers.TrackerProcess("mlflow", RunFolder(tmp_path), 0, CONFIG)
    if status is not None:
        assert tracker._process.wait(30) == status
    began = time.monotonic()
    for step in range(1000):
        tracker.write({"step": step, "loss": 1.0})
    tracker.write({"step": 1000, "split": "dev", "loss": 1.0})
    tracker.end()
    assert time.monotonic() - began < 1
    tracker.close()
    assert time.monotonic() - began < 4
    tracker._process.kill()
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len(started) == starts and len(warnings) == bool(warning)
    assert all(text.startswith(f"mlflow: {warning}") for text in warnings)


def needs(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"needs the extra {name}")


@pytest.fixture
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


@pytest.mark.slow
@pytest.mark.parametrize("name", REMOTE)
def test_a_killed_and_resumed_run_is_one_record(name, services, tmp_path):
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


@pytest.mark.slow
@pytest.mark.parametrize("answers", [False, True], ids=["away", "accepts without answering"])
@pytest.mark.parametrize("name", REMOTE)
def test_a_server_that_is_away_is_one_warning(
    name, answers, services, tmp_path, monkeypatch, caplog
):
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
