"""Parts that are compiled together and timed in turn, with stand-ins for their workers."""

import json
import subprocess
import sys
import time

import pytest

from benchmarks import turns
from benchmarks.side_by_side import Side
from benchmarks.turns import Part, measure
from benchmarks.workers import timing

WORKER = """
import json, sys, time
sys.path.insert(0, {folder!r})
from timing import serve

job = json.load(open(sys.argv[1]))
time.sleep(job["compile"])
if job.get("fails"):
    raise RuntimeError("no such layer")

def one_round(number):
    time.sleep(job["seconds"])
    return {{job["side"]: {{"steps_per_second": number + 1.0, "at": time.monotonic()}}}}

print("not JSON")
serve({{"device": "toy"}}, one_round, lambda call, folder: call() and {{"dot": 2.0}})
"""


@pytest.fixture
def part(tmp_path, monkeypatch):
    """Makes a part with a side for each job."""
    folder = timing.__file__.rpartition("/")[0]
    (tmp_path / "toy.py").write_text(WORKER.format(folder=folder))
    monkeypatch.setattr(turns, "WORKERS", tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 4 * turns.CORES)  # four parts at once

    def part(name, *jobs):
        sides = [
            Side(f"side {number}", sys.executable, "toy", {"compile": 0.0, "seconds": 0.0, **job})
            for number, job in enumerate(jobs)
        ]
        return Part(name, sides, (0, 0))

    return part


def states(parts, out, limit):
    measure(parts, out, 3, {"scale": "tiny"}, time.monotonic() + limit)
    files = {part.name: out / part.name / "measured.json" for part in parts}
    return {name: json.loads(f.read_text()) if f.exists() else None for name, f in files.items()}


def test_of_those_that_are_compiled_the_first_is_timed_first(part, tmp_path, capsys):
    """One that fails is named, and one that does not compile in time."""
    parts = [
        part("slow", {"compile": 60.0}),
        part("a/table", {"seconds": 0.1}),
        part("beside", {}, {}),
        part("wrong", {}, {"fails": True}),
    ]
    found = states(parts, tmp_path, 20)
    assert {name: result["state"] for name, result in found.items()} == {
        "slow": "not compiled in time",
        "a/table": "finished",
        "beside": "finished",
        "wrong": "failed: side 1: RuntimeError: no such layer",
    }
    assert sorted(capsys.readouterr().out.splitlines())[-1].startswith("wrong: failed")
    rounds = found["beside"]["rounds"]
    assert [{*rates} for rates in rounds] == [{"side 0", "side 1"}] * 3
    orders = {tuple(sorted(rates, key=lambda side: rates[side]["at"])) for rates in rounds}
    assert len(orders) == 2  # the sides take turns
    assert found["beside"]["kernel_seconds"] == {s: {"dot": 2.0} for s in ("side 0", "side 1")}
    assert found["a/table"]["sides"]["side 0"]["device"] == "toy"
    speed = json.loads((tmp_path / "a" / "table" / "speed.json").read_text())
    assert speed["of"] == "a/table tiny"
    assert speed["rows"] == {"side 0": {"train_speed": [1.0, 2.0, 3.0]}}


def test_the_limit_leaves_the_rounds_before_it(part, tmp_path):
    parts = [part("long", {"seconds": 3.0}), part("next", {"compile": 3.0}), part("last", {})]
    found = states(parts, tmp_path, 8)
    rounds = len(found["long"]["rounds"])
    assert 0 < rounds < 3 and found["long"]["state"] == f"{rounds} of 3 rounds"
    assert found["next"]["state"] == "not compiled in time"  # stopped while the first was timed


def test_the_peak_memory_of_a_side_is_without_that_of_the_process_which_started_it():
    held = bytearray(b"x" * (400 << 20))
    code = "from benchmarks.workers import timing; print(timing.host_peak_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < len(held) / 2
