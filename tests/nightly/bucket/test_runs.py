"""Runs in a bucket equal runs on a disk, also when they are killed, locked out or badly served.

The service is an emulator (`tests.bucket.emulator`).
"""

import json
import re
import signal
import socket
import time

import pytest

from tests.bucket.emulator import BUCKET
from tests.launch.commands import toy_config
from tests.nightly.bucket.machines import (
    LEASE,
    RHYTHM,
    Machine,
    holder,
    kill,
    objects,
    reach,
    require_equal,
    wait_for,
)

URL = f"gs://{BUCKET}/runs/toy"


def test_a_sweep_in_a_bucket(machine, service):
    config = toy_config(machine.folder)
    overrides = [f"--config.{key}={value}" for key, value in RHYTHM.items()]
    argv = ["--config", config, *overrides, "--grid", "rate=0,0.1", "--out", f"gs://{BUCKET}/sweep"]
    done = machine.run("sweep", *argv)
    assert done.returncode == 0, done.stderr
    names = service.objects("sweep/")
    rows = names["sweep/results.csv"].decode().splitlines()
    assert len(rows) == 3 and all(",finished," in row for row in rows[1:])
    assert {"sweep/figure.png", "sweep/figure.svg"} <= names.keys()
    assert f"{len(rows) - 1} trials, 2 of them finished" in machine.run("sweep", *argv).stderr


def test_damaged_checkpoints_are_set_aside(machine, service, on_disk):
    process = machine.train(URL)
    reach(service, "runs/toy", 40, process)
    kill(process)
    steps = {
        name.split("/")[3]
        for name in service.objects("runs/toy/checkpoints/")
        if "commit_success" in name
    }
    newest = max(map(int, steps))
    prefix = f"runs/toy/checkpoints/{newest}/state/"
    name = max(service.objects(prefix), key=lambda name: len(service.objects(prefix)[name]))
    service.put(name, b"damaged")
    process = machine.train(URL)
    assert process.wait(120) == 0
    assert f"checkpoints/{newest}: state/" in machine.log()
    assert service.objects(f"runs/toy/damaged/{newest}/")
    result = json.loads(objects(service, "runs/toy")["result.json"])
    wanted = json.loads((on_disk / "result.json").read_text())
    assert result["parameters_sha256"] == wanted["parameters_sha256"]


def test_a_second_process_waits_for_the_lease_of_a_killed_one(machine, service, on_disk):
    first = machine.train(URL, log="first", steps=100_000)
    reach(service, "runs/toy", 5, first)
    second = machine.train(URL, log="second")
    assert second.wait(60) == 2
    assert re.fullmatch(
        rf"error: {URL} is being trained by process {first.pid} on \S+; wait for it, or choose "
        "another --workdir",
        machine.error("second"),
    )
    kill(first)
    killed = time.monotonic()
    third = machine.train(URL, log="third", steps=100_000)
    wait_for(third, lambda: holder(service) == third.pid)
    assert time.monotonic() - killed > LEASE
    wait_for(third, lambda: "resuming" in machine.log("third"))  # it handles signals
    third.terminate()
    assert third.wait(60) == 143
    assert service.generation("runs/toy/lock") == "0"


def test_a_process_that_slept_past_its_lease_stops_before_its_next_write(machine, service):
    first = machine.train(URL, log="first", steps=100_000)
    reach(service, "runs/toy", 20, first)
    first.send_signal(signal.SIGSTOP)
    try:
        second = machine.train(URL, log="second", steps=100_000)
        wait_for(second, lambda: holder(service) == second.pid)
        second.send_signal(signal.SIGSTOP)  # what is written from now on is the first one's
        written = objects(service, "runs/toy")
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait(60) == 2
    (line,) = [x for x in machine.log("first").splitlines() if "error" in x]
    assert f"error: {URL}: this process did not renew its lock" in line
    assert f"process {second.pid} on" in line
    now = objects(service, "runs/toy")
    changed = {name for name in {*written, *now} if written.get(name) != now.get(name)}
    assert not {name for name in changed if "/state/" not in name and "/position/" not in name}
    kill(second)


@pytest.mark.parametrize(
    "fault,words",
    [
        ({"denied": ("POST",)}, "no permission: .*HTTP status 403"),
        ({"denied": ("GET", "POST", "DELETE")}, "no permission: .*HTTP status 403"),
        ({"failure_rate": 1.0}, ".*attempts failed.*503"),
    ],
)
def test_a_bucket_that_refuses_or_fails_is_one_line_within_30_seconds(
    machine, service, fault, words
):
    vars(service).update(fault)
    began = time.monotonic()
    assert machine.train(URL).wait(60) == 2
    assert time.monotonic() - began < 30
    assert re.match(rf"error: {URL}\S*: {words}", machine.error())
    assert service.failure_rate or service.objects() == {}  # a failing one carries out half


def test_permission_lost_while_training_is_one_line(machine, service):
    process = machine.train(URL, steps=100_000)
    reach(service, "runs/toy", 20, process)
    service.denied = ("POST",)
    assert process.wait(60) == 2
    lines = machine.log().splitlines()
    errors = [line for line in lines if not re.match("step |train|compil|dev|found|resum", line)]
    assert len(errors) == 1 and "no permission" in errors[0], errors


def test_slow_and_failing_requests_are_repeated_and_counted(machine, service, on_disk):
    service.failure_rate = 0.1
    service.seconds = 0.01
    assert machine.train(URL).wait(300) == 0, machine.log()
    require_equal(service, "runs/toy", on_disk)
    (count,) = re.findall(rf"{URL}: (\d+) requests failed and were repeated", machine.log())
    failed = sum(n for request, n in service.requests.items() if request.endswith(" 503"))
    assert 0 < int(count) <= failed


@pytest.mark.parametrize("fault", [{"failure_rate": 1.0}, {"seconds": 600.0}], ids=str)
def test_sigterm_ends_waiting_for_a_bucket_that_does_not_answer(machine, service, fault):
    process = machine.train(URL, steps=100_000)
    reach(service, "runs/toy", 20, process)
    vars(service).update(fault)
    time.sleep(2)
    process.terminate()
    began = time.monotonic()
    assert process.wait(60) == 143
    assert time.monotonic() - began < 30
    words = rf"SIGTERM: stopped without saving \(gs://{BUCKET}: .* for 1\d s\)"
    assert re.search(words, machine.log())


def pair(folder, service, run, name, **overrides):
    """Two processes of a run, started as torchrun does, each with a home of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(2):
        machine = Machine(folder / f"{name}{rank}", service)
        machine.environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        machine.environment |= {"WORLD_SIZE": "2", "RANK": str(rank)}
        processes.append(machine.train(run, **overrides))
    return processes


def test_two_processes_with_separate_homes(tmp_path, service):
    """Both are stopped by a signal to one of them, and resumed on new machines."""
    disk = pair(tmp_path, service, tmp_path / "run", "disk")
    assert [process.wait(120) for process in disk] == [0, 0]
    caches = {"data.cache_dir": f"gs://{BUCKET}/corpora"}
    first = pair(tmp_path, service, URL, "first", **caches)
    reach(service, "runs/toy", 20, first[0])
    first[1].terminate()
    assert [process.wait(120) for process in first] == [143, 143]
    second = pair(tmp_path, service, URL, "second", **caches)
    assert [process.wait(120) for process in second] == [0, 0]
    require_equal(service, "runs/toy", tmp_path / "run", resumed=1)
    assert len(service.objects("corpora/")) > 3


def test_a_live_run_is_traced_into_the_bucket(machine, service):
    process = machine.train(URL, steps=100_000)
    reach(service, "runs/toy", 20, process)
    process.send_signal(signal.SIGUSR1)
    wait_for(process, lambda: "traced steps" in machine.log())
    kill(process)
    (trace,) = [x for x in service.objects("runs/toy/profile/") if x.endswith(".xplane.pb")]
    assert re.match(r"runs/toy/profile/steps-\d+-\d+/", trace)
