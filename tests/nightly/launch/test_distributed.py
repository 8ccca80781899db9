"""Distributed runs equal those of one process, also after signals, deaths and failures."""

import re
import signal
import time

import pytest

from launch.train.child import LOST
from tests.launch.tiny_runs import SMALL, evaluated, numbers, result
from tests.nightly.launch.jobs import Job, agree, complete


def same(one, other):
    """Requires equal runs, bit for bit, except the log line with steps before a restart."""
    assert result(one)["parameters_sha256"] == result(other)["parameters_sha256"]
    assert result(one)["metrics"] == result(other)["metrics"]
    first, second = ([x for x in numbers(run) if x.get("split") == "dev"] for run in (one, other))
    assert first == second and len(first) > 2
    assert evaluated(one) == evaluated(other)


@pytest.fixture(scope="module", params=["toy", *SMALL])
def undisturbed(request, tmp_path_factory):
    """A folder, a family, and an uninterrupted run of two processes with two devices each."""
    folder = tmp_path_factory.mktemp(request.param)
    return folder, request.param, complete(folder, "two", request.param, 2, 2).run


def stopped(folder, family, number, request=signal.SIGTERM):
    """A run of two processes that was stopped by a signal to one of them, and resumed."""
    job = Job(folder, f"stopped{number}", family, 2, 2)
    job.reach(21)
    job.processes[number].send_signal(request)
    statuses = [143, 143]
    statuses[number] = 128 + request
    assert job.end() == statuses
    (step,) = {re.search(r"^SIGTERM: stopped at step (\d+)", s, re.M)[1] for s in job.output}
    complete(folder, f"stopped{number}", family, 2, 2)
    assert result(job.run)["resumed_from"] == [int(step)]
    return job.run


@pytest.fixture
def hangups_end_processes():
    """Also where SIGHUP is ignored, as under nohup, which the processes of a test inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups_end_processes")
@pytest.mark.parametrize("number", [0, 1])
def test_sighup_to_one_stops_all_at_the_same_step(tmp_path, number):
    stopped(tmp_path, "toy", number, signal.SIGHUP)


def test_two_processes_equal_a_single_process(undisturbed):
    folder, family, two = undisturbed
    one = complete(folder, "one", family, 1, 4).run
    agree(one, two)


@pytest.mark.parametrize("number", [0, 1])
def test_sigterm_to_one_stops_all_at_the_same_step(undisturbed, number):
    folder, family, run = undisturbed
    same(stopped(folder, family, number), run)


@pytest.mark.parametrize("dead", [0, 1])
def test_the_death_of_one_ends_the_others_with_a_line(undisturbed, dead):
    folder, family, run = undisturbed
    job = Job(folder, f"killed{dead}", family, 2, 2)
    job.reach(21)
    job.processes[dead].kill()
    began = time.monotonic()
    statuses = job.end()
    seconds = time.monotonic() - began
    assert statuses[dead] == -signal.SIGKILL and statuses[1 - dead] == LOST
    line = job.output[1 - dead].splitlines()[-1]
    assert line.startswith("error: JAX has ended this process")
    assert seconds < 60
    complete(folder, f"killed{dead}", family, 2, 2)
    assert len(result(job.run)["resumed_from"]) == 1
    same(job.run, run)


@pytest.mark.parametrize(
    "own,message",
    [
        (lambda folder: {"environment": {"HOME": folder / "file"}}, "file/corpus: cannot prepare"),
        (lambda _: {"overrides": {"train.steps": 9}}, "differs from the first process in train.st"),
        (
            lambda folder: {"run": folder / "elsewhere"},
            "not the folder that the first process",
        ),
    ],
)
def test_a_mistake_on_one_machine_is_reported_by_all(tmp_path, monkeypatch, own, message):
    (tmp_path / "file").write_text("no home")
    monkeypatch.setenv("HOME", str(tmp_path))
    cache = {"data.cache_dir": "~/corpus"}
    job = Job(tmp_path, "run", "toy", 2, 1, own=own(tmp_path), **cache)
    assert job.end() == [2, 2]
    for output in job.output:
        line = next(line for line in output.splitlines() if line.startswith("error: "))
        assert line.startswith("error: process 1: ") and message in line


@pytest.mark.parametrize("family", SMALL)
def test_a_run_resumes_with_any_number_of_processes(tmp_path, family):
    """8 devices, 2 processes with 4 each, 1 device, 2 processes with 1 each."""
    once = {"train.evaluate_every": 48, **({"decode.beam_size": 1} if family == "csan" else {})}
    uninterrupted = complete(tmp_path, "uninterrupted", family, 1, 8, **once).run
    for steps, processes, devices in [(12, 1, 8), (24, 2, 4), (36, 1, 1), (48, 2, 1)]:
        part = {**once, "train.steps": steps}
        moved = complete(tmp_path, "moved", family, processes, devices, **part).run
    assert result(moved)["resumed_from"] == [12, 24, 36]
    losses = [
        {x["step"]: x["loss"] for x in numbers(run) if "learning_rate" in x}
        for run in (uninterrupted, moved)
    ]
    far = max(abs(losses[1][step] / loss - 1) for step, loss in losses[0].items())
    assert far < 1e-5
