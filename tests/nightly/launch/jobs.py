"""Runs of processes: several with Gloo between them, and killed ones on disks without locks."""

import re
import signal
import socket
import sys
import time

import pytest

from tests.launch.commands import toy_config
from tests.launch.tiny_runs import (
    EVERY_STEP,
    RHYTHM,
    ROOT,
    SMALL,
    evaluated,
    lines,
    numbers,
    result,
    start,
)
from tests.nightly.launch.no_locks import SUPPORTED

LEASE = 4
DVS = 524  # ENOTSUPP of the kernel, which has no name in errno
needs_seccomp = pytest.mark.skipif(not SUPPORTED, reason="needs Linux's seccomp")

TOY_RHYTHM = {
    "train.steps": 150,
    "train.evaluate_every": 50,
    "train.checkpoint_every": 10,
    "train.log_every": 5,
}
# Faster, QANet magnifies the last digit of a sum tenfold every two steps.
CALM = {"optimizer.learning_rate": 1e-3, "optimizer.schedule": "constant"}
NUMBERS = {"loss", "nll", "grad_norm", "padding_fraction"}


class Job:
    """The running processes of one run."""

    def __init__(self, folder, name, family, processes, devices, own=None, **overrides):
        """
        Args:
          devices: number of devices of each process.
          own: differences of the last process: "overrides", "run" or "environment".
        """
        self.run = folder / name
        config = f"configs/{family}/quickstart.py"
        values = {**RHYTHM, **SMALL[family], **CALM} if family in SMALL else TOY_RHYTHM
        if family not in SMALL:
            config = toy_config(folder)
        values = {**values, "data.cache_dir": folder / "corpus", **overrides}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.logs = [folder / f"{name}.{number}.stderr" for number in range(processes)]
        self.processes = []
        for number, log in enumerate(self.logs):
            flags = ["--coordinator", f"127.0.0.1:{port}", "--num_processes", processes]
            flags = [*flags, "--process_id", number] if processes > 1 else []
            different = dict(own or {}) if number == processes - 1 else {}
            fields = {**values, **different.get("overrides", {})}
            run = different.get("run", self.run)
            environment = different.get("environment", {})
            compiled = folder / "compiled"
            process = start(config, fields, run, devices, log, flags, compiled, environment)
            self.processes.append(process)

    def reach(self, step):
        """Waits until the log has the step."""
        reach(self.processes, self.run, step, lambda: self.output)

    def end(self):
        """Waits for the processes; returns their exit statuses."""
        return [process.wait(600) for process in self.processes]

    @property
    def output(self):
        return [log.read_text(errors="replace") for log in self.logs]


def complete(*args, **overrides):
    job = Job(*args, **overrides)
    statuses = job.end()
    assert statuses == [0] * len(statuses), "\n".join(job.output)
    return job


def agree(one, two):
    """Requires that two uninterrupted runs on four devices agree up to rounding of sums."""
    for a, b in zip(numbers(one), numbers(two), strict=True):
        assert a["step"] == b["step"]
        for name in a.keys() & NUMBERS:
            assert b[name] == pytest.approx(a[name], rel=1e-5, abs=0)
    assert result(two)["devices"] == result(one)["devices"] and len(result(two)["devices"]) == 4
    assert evaluated(two).keys() == evaluated(one).keys()
    for name, text in evaluated(one).items():  # every example once
        assert len(evaluated(two)[name].splitlines()) == len(text.splitlines())


def begin(number, config, run, corpus, log, **overrides):
    """Starts a training on disks whose locks fail with an errno."""
    values = {**EVERY_STEP, "data.cache_dir": corpus, **overrides}
    if "toy" in str(config):
        del values["data.max_shapes"]
    lease = {"CONV_ATTENTION_LEASE_SECONDS": str(LEASE)}
    without = [sys.executable, str(ROOT / "tests/nightly/launch/no_locks.py"), str(number)]
    return start(config, values, run, 1, log, (), corpus.with_name("compiled"), lease, without)


def reach(processes, run, step, output):
    """Waits until the log of a run has the step."""
    path = run / "metrics.jsonl"
    while not path.exists() or max((x["step"] for x in lines(run)), default=0) < step:
        assert all(process.poll() is None for process in processes), output()
        time.sleep(0.02)


def killed_and_resumed(folder, number, config, beside=True, **overrides):
    """A run on a disk without locks is killed, and resumed when its lease has ended.

    Args:
      beside: whether a second command is started before the kill, which is refused.
    """
    run, corpus, log, second = (folder / name for name in ("run", "corpus", "log", "second"))
    arguments = (config, run, corpus)
    long = {**overrides, "train.steps": 4000, "train.checkpoint_every": 4}
    first = begin(number, *arguments, log, **long)
    reach([first], run, 8, log.read_text)
    holder = rf"process {first.pid} on \S+"
    if beside:
        assert begin(number, *arguments, second, **long).wait() == 2
        line = rf"^error: {run} is being trained by {holder}; wait for it, or choose another "
        assert re.search(rf"{line}--workdir$", second.read_text(), re.MULTILINE)
    first.send_signal(signal.SIGKILL)
    first.wait()
    steps = max(
        int(path.name) for path in (run / "checkpoints").glob("[0-9]*") if path.name.isdigit()
    )
    last = begin(number, *arguments, log, **{**long, "train.steps": steps + 4})
    assert last.wait() == 0, log.read_text()
    output = log.read_text()
    assert result(run)["resumed_from"] == [steps] and not (run / "damaged").exists()
    assert len(result(run)["metrics"]) == 2 and not [*folder.rglob("*__lock")]
    assert output.count("this disk has no file locks (") == 1
    assert re.search(rf"{run}: waiting {LEASE} s, the lease of {holder}$", output, re.MULTILINE)
