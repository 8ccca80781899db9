"""The state and the time left of runs, and what a look reads."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from common_jax.io.storage import folder_of
from launch.watch.page import seconds_left as sweep_seconds
from launch.watch.run import Status, WatchedRun, duration, seconds_left
from tests.launch.watch.folders import append, result, write

HERE = socket.gethostname()


def looked(folder, trial=False):
    run = WatchedRun(folder, "run", trial)
    run.look()
    return run


@pytest.fixture
def ended():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_run_whose_lock_is_held_is_running(tmp_path):
    folder = write(tmp_path / "run", lines=4)
    assert folder_of(folder).lock("lock") == ""
    try:
        run = looked(folder)
        assert run.status == Status("running", "", 60.0)
        assert (run.step, run.steps, run.metric) == (40, 100, "accuracy")
        assert run.best["accuracy"] == 54 and run.latest("loss") == 0.75
        append(folder, 4, 10)
        run.look()
        assert run.status == Status("running", "scoring", 0.0)
    finally:
        folder_of(folder).unlock("lock")


@pytest.mark.parametrize(
    "files,expected",
    [
        ({"result": result()}, Status("finished")),
        ({"result": result(40, stopped_early=True)}, Status("finished")),
        ({"end": {"state": "stopped", "message": "at step 40"}}, Status("stopped", "at step 40")),
        ({"end": {"state": "failed", "message": "disk full"}}, Status("failed", "disk full")),
        ({"result": result(40), "end": {"state": "stopped", "message": ""}}, Status("stopped")),
    ],
    ids=["finished", "early", "stopped", "failed", "resumed and stopped"],
)
def test_an_end_is_what_the_run_recorded(files, expected, tmp_path, ended):
    folder = write(tmp_path / "run", lines=4, holder=f"process {ended} on {HERE}", **files)
    assert looked(folder).status == expected


def test_a_killed_run_has_failed(tmp_path, ended):
    run = looked(write(tmp_path / "run", lines=4, holder=f"process {ended} on {HERE}"))
    assert run.status.state == "failed" and "killed" in run.status.note


def test_the_run_of_another_machine_is_running_while_its_log_grows(tmp_path):
    folder = write(tmp_path / "run", lines=4, holder="process 1 on elsewhere")
    assert looked(folder).status.state == "running"
    for name in ("metrics.jsonl", "config.json"):
        os.utime(folder / name, (time.time() - 3600,) * 2)
    status = looked(folder).status
    assert status.state == "stopped" and "no line for 60 min" in status.note


def test_a_trial_has_the_record_of_its_sweep(tmp_path, ended):
    assert looked(tmp_path / "a", trial=True).status == Status("not begun")
    record = {"state": "failed", "error": "ended by SIGKILL (out of memory?)"}
    (tmp_path / "a.json").write_text(json.dumps(record))
    assert looked(tmp_path / "a", trial=True).status == Status("failed", record["error"])
    folder = write(tmp_path / "a", lines=2, holder=f"process {ended} on {HERE}")
    assert looked(folder, trial=True).status == Status("failed", record["error"])
    (tmp_path / "a.json").write_text('{"state": "stopped", "error": ""}')
    assert "others did better" in looked(folder, trial=True).status.note


def test_a_look_reads_only_what_is_new(tmp_path, monkeypatch):
    folder = write(tmp_path / "run", lines=3, end={"state": "stopped", "message": ""})
    run = looked(folder)
    version = run.version
    monkeypatch.setattr("pathlib.Path.open", lambda *_, **__: pytest.fail("a file was read"))
    run.look()
    assert run.version == version
    monkeypatch.undo()
    append(folder, 3, 4)
    run.look()
    assert run.version == version + 1 and len(run.lines) == 8


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b"\xff\xfe", b'{"config": 3}', b"null"])
def test_damaged_files_do_no_harm(damage, tmp_path):
    folder = write(tmp_path / "run", lines=2)
    for name in ("config.json", "result.json", "end.json", "metrics.jsonl", "lock"):
        whole = (folder / name).read_bytes() if (folder / name).exists() else None
        (folder / name).write_bytes(damage)
        looked(folder, trial=True)
        (folder / name).unlink() if whole is None else (folder / name).write_bytes(whole)
    assert looked(folder).step == 20


def test_the_time_left_is_that_of_the_speed_since_the_last_restart():
    line = lambda step, seconds: {"step": step, "wall_seconds": seconds}
    assert seconds_left([], 100) is None and seconds_left([line(10, 5.0)], 100) is None
    slow = [line(10, 100.0), line(20, 200.0)]
    assert seconds_left(slow, 100) == 800.0
    resumed = [*slow, {"step": 20, "resumed_from": 20}]
    assert seconds_left(resumed, 100) == 800.0
    assert seconds_left([*resumed, line(30, 250.0), line(40, 260.0)], 100) == 60.0


class Timed:
    def __init__(self, state, seconds=0.0, left=None):
        self.seconds, self.status = seconds, Status(state, "", left)


def test_the_time_left_of_a_sweep_counts_the_trials_that_have_not_begun():
    running, done, new = Timed("running", 60.0, 40.0), Timed("finished", 100.0), Timed("not begun")
    assert sweep_seconds([done, new]) is None
    assert sweep_seconds([running, done]) == 40.0
    assert sweep_seconds([running, done, new, new]) == 240.0
    assert sweep_seconds([running, running, done, new, new]) == (40 + 40 + 200) / 2


@pytest.mark.parametrize(
    "seconds,text",
    [(5.2, "5 s"), (90, "2 min"), (3600, "60 min"), (7500, "2 h 5 min"), (180_000, "2 d 2 h")],
)
def test_durations(seconds, text):
    assert duration(seconds) == text
