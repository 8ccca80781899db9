"""Machines that use a bucket, and what their runs leave in it."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

from tests.bucket.emulator import running
from tests.launch.commands import ROOT, toy_config
from tests.launch.tiny_runs import numbers, start

RHYTHM = {
    "train.steps": 60,
    "train.evaluate_every": 20,
    "train.checkpoint_every": 5,
    "train.log_every": 5,
}
LEASE = 6.0  # seconds


@pytest.fixture(scope="module")
def emulator():
    with running() as service:
        yield service


@pytest.fixture
def service(emulator):
    emulator.reset()
    return emulator


class Machine:
    """A home folder of its own, from which commands use the service."""

    def __init__(self, folder, service):
        self.folder, self._service = folder, service
        (folder / "home").mkdir(parents=True)
        self.environment = {
            **service.environment,
            "HOME": str(folder / "home"),
            "CONV_ATTENTION_LEASE_SECONDS": str(LEASE),
        }

    def train(self, run, *, config=None, log="log", steps=None, **overrides):
        """Starts training, of the toy task unless there is a config; its messages are in `log`."""
        values = (RHYTHM if config is None else {}) | overrides
        values |= {"train.steps": steps} if steps else {}
        config = config or toy_config(self.folder)
        compiled = self.folder.parent / "compiled"
        return start(config, values, run, 1, self.folder / log, (), compiled, self.environment)

    def run(self, command, *arguments, stdin=""):
        """The result of a command."""
        environment = {**os.environ, **self.environment, "JAX_PLATFORMS": "cpu"}
        environment |= {"XLA_FLAGS": "", "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", f"launch.{command}", *map(str, arguments)]
        return subprocess.run(
            argv, input=stdin, capture_output=True, text=True, env=environment, cwd=ROOT
        )

    def error(self, log="log"):
        """The only line in a log."""
        (line,) = self.log(log).splitlines()
        return line

    def log(self, name="log"):
        """The messages in a log."""
        return (self.folder / name).read_text()

    def files(self):
        """The names of the files in the home folder."""
        home = self.folder / "home"
        return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}


@pytest.fixture
def machine(tmp_path, service):
    return Machine(tmp_path / "machine", service)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory, emulator):
    machine = Machine(tmp_path_factory.mktemp("disk") / "machine", emulator)
    assert machine.train(machine.folder / "run").wait(120) == 0
    return machine.folder / "run"


def objects(service, run):
    """The content of a run's objects, by name."""
    return {k.removeprefix(f"{run}/"): v for k, v in service.objects(f"{run}/").items()}


def require_equal(service, run, on_disk, resumed=0):
    """Requires that a run in the bucket equals one on a disk."""
    actual = objects(service, run)
    result = json.loads(actual["result.json"])
    wanted = json.loads((on_disk / "result.json").read_text())
    for name in ("parameters_sha256", "metrics", "steps", "best_step"):
        assert result[name] == wanted[name]
    assert len(result["resumed_from"]) == resumed
    logs = [actual["metrics.jsonl"].decode(), (on_disk / "metrics.jsonl").read_text()]
    lines = [*map(numbers, logs)]
    if resumed:  # a line whose steps are of two processes has the loss of the later ones
        lines = [[line for line in log if "split" in line] for log in lines]
    assert lines[0] == lines[1]
    for file in (on_disk / "eval").iterdir():
        assert actual[f"eval/{file.name}"] == file.read_bytes()
    names = lambda paths: {re.sub("state/.*|events.*", "", path) for path in paths}
    files = (path for path in on_disk.rglob("*") if path.is_file())
    local = names(path.relative_to(on_disk).as_posix() for path in files)
    assert names(actual) == local - {"lock"}


def holder(service):
    """The process that has locked the run."""
    content = service.objects("runs/toy/lock").get("runs/toy/lock", b"process 0 ").decode()
    return int(content.split()[1])


def wait_for(process, condition):
    """Waits until a condition holds while the process runs."""
    while not condition():
        assert process.poll() is None
        time.sleep(0.01)


def reach(service, run, step, process):
    """Waits until a run has saved a step."""
    name = f"{run}/checkpoints/{step}/commit_success.txt"
    wait_for(process, lambda: service.generation(name) != "0")


def kill(process):
    process.kill()
    process.wait()
