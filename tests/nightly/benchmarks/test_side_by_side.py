"""The load benchmark, and the comparison with other toolkits, with stand-ins for their workers."""

import itertools
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import pages, qanet_pytorch, serve
from benchmarks.pages import summary
from benchmarks.side_by_side import (
    Measure,
    Side,
    alternate,
    arguments,
    compare,
    environment,
    require_checkout,
    suite,
    with_equal_answers,
    write,
    write_batches,
)
from benchmarks.workers import load, timing
from benchmarks.workers.suite import task_of
from benchmarks.workers.timing import count, read
from common_jax.errors import UserError
from tests.launch.serve.toy_server import running

BATCHES = [
    {"index": np.array([4, -1], np.int32), "first": np.array([[7, 8, 0], [0, 0, 0]], np.int32)},
    {"index": np.array([1, 2], np.int32), "first": np.array([[5, 0], [6, 9]], np.int32)},
]
PEER = """
import json, sys, time
from timing import Work, count, read, work

def make(job):
    batches = read(job["batches"])
    return Work(lambda batch: time.sleep(job["sleep"]), batches, count(batches, job["counted"]), 12)

work(make)
"""


def committed(folder):
    folder.mkdir()
    (folder / "model.py").write_text("x = 1\n")
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b.c commit -qm one"):
        subprocess.run(["git", *words.split()], cwd=folder, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=folder, text=True).strip()


def test_a_checkout_is_the_peers_and_unchanged(tmp_path):
    commit = committed(tmp_path / "peer")
    require_checkout(tmp_path / "peer", commit)
    (tmp_path / "plain").mkdir()
    for folder in ("plain", "missing"):
        with pytest.raises(UserError, match=f"{folder}: not a checkout"):
            require_checkout(tmp_path / folder, commit)
    with pytest.raises(UserError, match="must be at 000000000000"):
        require_checkout(tmp_path / "peer", "0" * 40)
    (tmp_path / "peer" / "model.py").write_text("x = 2\n")
    with pytest.raises(UserError, match=r"has changes \(M model.py\)"):
        require_checkout(tmp_path / "peer", commit)


def test_packages_that_cannot_be_installed_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(UserError, match="cannot install no-such-package==1"):
        environment(tmp_path / "env", ["no-such-package==1"])
    assert not (tmp_path / "env" / "requirements.txt").exists()


def test_sides_are_timed_in_turn_and_compared_round_by_round(tmp_path, monkeypatch):
    """The peer sleeps four times as long as the stand-in for the suite."""
    (tmp_path / "peer.py").write_text(PEER)
    monkeypatch.setattr("benchmarks.side_by_side.WORKERS", tmp_path)
    shutil.copy(timing.__file__, tmp_path)
    sleep = {"suite": 0.05, "peer": 0.2}
    sides = [Side(name, sys.executable, "peer", {"sleep": sleep[name]}) for name in sleep]
    measures = [Measure("training", "train", BATCHES, passes=2, counted=["first"])]
    rows = alternate(sides, measures, rounds=2, threads=1)
    turns = sorted((row["round"], row["side"]) for row in rows)
    assert turns == [*itertools.product((0, 1), ("peer", "suite"))]
    assert all(row["units"] == 10 and len(row["seconds"]) == 4 for row in rows)
    own, peer = summary(rows, "token")
    assert own["suite, times as fast"] == 1
    assert all(sum(row["seconds"]) >= 4 * sleep[row["side"]] for row in rows)
    rate = {(row["round"], row["side"]): 10 / sum(row["seconds"]) for row in rows}
    ratios = [rate[number, "suite"] / rate[number, "peer"] for number in (0, 1)]
    assert peer["suite, times as fast"] == pytest.approx(sum(ratios) / 2)
    assert peer["tokens a second"] == pytest.approx((rate[0, "peer"] + rate[1, "peer"]) / 2)
    write(tmp_path, "peers", rows, measures, ["The peer sleeps."], {"command": "peers"})
    assert "The peer sleeps." in (tmp_path / "peers.md").read_text()
    more = [{**row, "measure": "answers", "equal_answers": 0.75} for row in rows]
    measures.append(Measure("answers", "answer", BATCHES))
    write(tmp_path, "peers", more, measures, [], {"command": "later"})
    results = json.loads((tmp_path / "peers.json").read_text())
    assert results["training"] == {"command": "peers", "unit": "token", "rounds": rows}
    assert results["answers"] == {"command": "later", "rounds": more}
    page = (tmp_path / "peers.md").read_text()
    assert "## Training" in page and "equal, %" in page and "75.0" in page


def test_a_worker_that_fails_names_its_last_line(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.side_by_side.WORKERS", tmp_path)
    (tmp_path / "peer.py").write_text("raise RuntimeError('no such layer')")
    side = Side("peer", sys.executable, "peer")
    with pytest.raises(UserError, match="peer: RuntimeError: no such layer"):
        alternate([side], [Measure("training", "train", BATCHES)], rounds=1, threads=1)


def test_the_suite_trains_and_answers(tmp_path):
    config = "configs/attconv/quickstart.py"
    overrides = {
        "data.examples": 24,
        "data.holdout_size": 8,
        "data.batch_size": 8,
        "data.cache_dir": tmp_path,
    }
    batches = [*task_of(config, overrides).train_batches().epoch(0)]
    side = suite(config, overrides)
    measures = [Measure(phase, phase, batches) for phase in ("train", "answer")]
    rows = alternate([side], measures, rounds=1, threads=1)
    assert [row["units"] for row in rows] == [24, 24]
    assert rows[0]["parameters"] == rows[1]["parameters"] > 0


def test_clients_time_each_request():
    bodies = [json.dumps({"inputs": [text]}) for text in ("one", "one two")]
    with running(queue=64) as (port, _):
        job = {"port": port, "path": "/v1/models/toy:predict", "bodies": bodies}
        result = load.main({**job, "clients": 3, "requests": 20})
        assert len(result["seconds"]) == 20 and 0 < max(result["seconds"]) <= result["total"]
        assert serve._metric(port, "process_resident_memory_bytes") > 2**20
        with pytest.raises(RuntimeError, match="no such model"):
            load.main({**job, "path": "/v1/models/no:predict", "clients": 1, "requests": 1})


def test_figures_are_percentiles_and_medians_over_rounds():
    figures = serve.figures([n / 1000 for n in range(1, 101)], 2.0)
    assert figures == {"requests_per_second": 50, "p50_ms": 51, "p95_ms": 96, "p99_ms": 100}
    rows = [
        {"round": n, "clients": 8, "side": "batches", **figures, "p50_ms": 10.0 * n}
        for n in range(3)
    ]
    (row,) = pages.served(rows)
    assert row == {"clients": 8, "side": "batches", **figures, "p50_ms": 10.0}


def test_batches_are_read_as_they_were_written(tmp_path):
    write_batches(tmp_path / "b.npz", BATCHES)
    again = read(str(tmp_path / "b.npz"))
    assert [list(batch) for batch in again] == [["index", "first"]] * 2
    for batch, own in zip(again, BATCHES, strict=True):
        for name in own:
            np.testing.assert_array_equal(batch[name], own[name])
    assert count(again) == 3 and count(again, ["first"]) == 5


def test_answers_are_compared_with_the_suites_of_the_same_measure():
    answers = {"suite": [1, 2, 3, 4], "peer": [1, 5, 3, 4]}
    rows = [{"measure": "a", "side": side, "answers": answers[side]} for side in answers]
    rows += [{"measure": "b", "side": side, "answers": []} for side in answers]
    first, second, *others = with_equal_answers(rows)
    assert first == {"measure": "a", "side": "suite", "equal_answers": 1.0}
    assert second == {"measure": "a", "side": "peer", "equal_answers": 0.75}
    assert others == [{"measure": "b", "side": side} for side in answers]


def test_only_some_measures(tmp_path):
    args = arguments("").parse_args(["--data", str(tmp_path), "--only", "search"])
    measures = [Measure(name, "train", BATCHES) for name in ("training", "answers")]
    with pytest.raises(UserError, match=r"--only search: fits none of training \| answers"):
        compare(args, "peers", [], measures, [])


def test_full_length_batches_repeat_their_own_words():
    batch = {
        "index": np.array([0]),
        "context": np.array([[3, 4, 5]]),
        "context_characters": np.array([[[1, 2], [3, 4], [5, 6]]]),
        "question": np.array([[9]]),
    }
    longer = qanet_pytorch.padded(batch)
    assert longer["context"].shape == (1, 400) and longer["question"].shape == (1, 50)
    assert longer["context"][0, :7].tolist() == [3, 4, 5, 3, 4, 5, 3]
    assert longer["context_characters"][0, 4].tolist() == [3, 4]
