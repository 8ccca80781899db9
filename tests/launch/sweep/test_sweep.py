"""`launch.sweep` with trials in separate processes, on this machine and on Ray.

Tests of the executor alone use a stub for the trials, without JAX.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.fields import to_mapping
from common_jax.io.atomic import write_json
from common_jax.training.run_folder import VERSION
from launch import api, cli
from launch.sweep import __main__ as sweep
from launch.trials import local_executor, ray_executor
from launch.trials.status import find, read_csv
from launch.trials.trials import grid_axis, grid_trials
from tests.launch import commands
from tests.launch.commands import fails

STEPS = {"train.steps": 200, "train.log_every": 10}
STEPS |= {"train.evaluate_every": 100, "train.checkpoint_every": 100}
GRID = ["--grid", "optimizer.learning_rate=0.01,0.001"]
TRIALS = [f"optimizer.learning_rate={rate},train.seed=0" for rate in (0.01, 0.001)]


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    place = {"data.cache_dir": str(folder / "cache"), "mesh.data": 1}
    return commands.toy_config(folder, place | STEPS)


@pytest.fixture(scope="module", autouse=True)
def processes():
    with pytest.MonkeyPatch.context() as patch:
        commands.share_with_trials(patch)
        yield


@pytest.fixture(scope="module")
def swept(config, tmp_path_factory):
    """A sweep of a trial that succeeds and one that fails, in processes that train."""
    out = tmp_path_factory.mktemp("swept")
    argv = ["--config", config, "--grid", "optimizer.learning_rate=0.01,1e36", "--out", str(out)]
    with pytest.raises(SystemExit) as exit_:
        sweep.main(argv)
    assert exit_.value.code == 1
    return out, argv


@pytest.fixture
def stub(monkeypatch):
    """Replaces the trials' processes by stub_trial.py, which trains nothing; draws no figure."""
    monkeypatch.delenv("STUB_FAILS", raising=False)
    monkeypatch.delenv("STUB_TOGETHER", raising=False)
    program = [sys.executable, str(Path(__file__).with_name("stub_trial.py"))]
    real = local_executor.command
    lock = threading.Lock()  # two sweeps can be threads of a test

    def command(trial):
        trial.workdir.path.mkdir(parents=True, exist_ok=True)
        config = {"version": VERSION, "config": to_mapping(trial.config)}
        with lock:
            write_json(trial.workdir.path / "config.json", config)
        return [*program, *real(trial)[3:]]  # without python -m launch.train

    monkeypatch.setattr(local_executor, "command", command)
    monkeypatch.setattr(sweep, "_draw", lambda *_: None)


def rows(out):
    return {row["optimizer.learning_rate"]: row for row in read_csv(out / "results.csv")}


def result(out, trial):
    return json.loads((out / "trials" / trial / "result.json").read_text())


def test_results_are_those_of_the_runs_with_the_error_of_the_one_that_fails(swept):
    out, _ = swept
    row, expected = rows(out)["0.01"], result(out, TRIALS[0])
    assert (row["state"], row["seed"], row["steps"]) == ("finished", "0", "200")
    assert float(row["dev.loss"]) == expected["metrics"]["dev"]["loss"]
    assert float(row["test.rounded"]) == expected["metrics"]["test"]["rounded"]
    assert float(row["seconds"]) == expected["wall_seconds"]
    assert int(row["parameters"]) == expected["parameters"] == 44
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "figure.svg").read_text().startswith("<svg ")
    page = (out / "report.html").read_text()
    assert "1 finished, 1 failed" in page and "<h2>dev.loss</h2>" in page
    assert "not finite 10 times in a row" in page and "http-equiv" not in page
    failed = rows(out)["1e+36"]
    assert (failed["state"], failed["dev.loss"]) == ("failed", "")
    assert "was not finite 10 times in a row" in failed["error"]


def test_a_dry_run_lists_and_writes_nothing(swept, config, tmp_path, capsys):
    argv = swept[1]
    sweep.main([*argv, "--dry_run", "--seeds", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(f"{TRIALS[0]}: finished in ")
    assert lines[1] == "optimizer.learning_rate=0.01,train.seed=1: new"
    assert lines[2].startswith("optimizer.learning_rate=1e+36,train.seed=0: failed at step")
    sweep.main(["--config", config, *GRID, "--out", str(tmp_path / "new"), "--dry_run"])
    assert not (tmp_path / "new").exists()


def test_the_same_command_leaves_finished_trials_alone(stub, config, tmp_path, monkeypatch, capsys):
    argv = ["--config", config, "--grid", "optimizer.learning_rate=0.01,0.5,0.001"]
    argv += ["--out", str(tmp_path)]
    monkeypatch.setenv("STUB_FAILS", "optimizer.learning_rate=0.5")
    with pytest.raises(SystemExit) as exit_:
        sweep.main(argv)
    assert exit_.value.code == 1
    before = rows(tmp_path)
    made = [result(tmp_path, trial)["began"] for trial in TRIALS]
    assert [row["state"] for row in before.values()] == ["finished", "failed", "finished"]
    assert before["0.5"]["error"] == "as requested"
    monkeypatch.delenv("STUB_FAILS")
    capsys.readouterr()
    sweep.main(argv)
    messages = capsys.readouterr().err
    assert "3 trials, 2 of them finished" in messages
    assert "trial 1 of 1, compiling: optimizer.learning_rate=0.5,train.seed=0" in messages
    assert [result(tmp_path, trial)["began"] for trial in TRIALS] == made
    now = rows(tmp_path)
    assert now["0.5"]["state"] == "finished" and now["0.5"]["error"] == ""
    assert all(now[rate] == before[rate] for rate in ("0.01", "0.001"))


def test_jobs_are_trained_concurrently(stub, config, tmp_path, monkeypatch):
    monkeypatch.setenv("STUB_TOGETHER", "2")
    sweep.main(["--config", config, *GRID, "--out", str(tmp_path), "--jobs", "2"])
    assert {row["state"] for row in rows(tmp_path).values()} == {"finished"}


def wait_for(log):
    """Waits until a log has a line."""
    deadline = time.monotonic() + 120
    while not (log.exists() and log.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_sweep_stops_its_trial_upon_a_signal_and_resumes(
    stub, config, tmp_path, monkeypatch, capsys
):
    argv = ["--config", config, *GRID, "--out", str(tmp_path), "--config.train.steps=1000"]
    monkeypatch.setattr(sys, "argv", ["launch.sweep", *argv])
    log = tmp_path / "trials" / TRIALS[1] / "metrics.jsonl"

    def ask():
        wait_for(log)
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # would end pytest
            os.kill(os.getpid(), signal.SIGTERM)

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(SystemExit) as exit_:
        cli.run(sweep.main)
    asking.join()
    assert exit_.value.code == 128 + signal.SIGTERM
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == "SIGTERM: the same command resumes from there"
    first = result(tmp_path, TRIALS[0])
    assert not (tmp_path / "trials" / TRIALS[1] / "result.json").exists()
    sweep.main(argv)
    assert result(tmp_path, TRIALS[0]) == first
    (step,) = result(tmp_path, TRIALS[1])["resumed_from"]
    assert 0 < step < 1000


def test_two_sweeps_of_one_folder_share_the_work(stub, config, tmp_path):
    axes = [grid_axis(GRID[1])]
    sweeps = [grid_trials(config, [], axes, 1, tmp_path) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(lambda p=p: list(local_executor.run_here(p, 1))) for p in sweeps]
    assert [len(done.result()) for done in both] == [2, 2]
    for trial in sweeps[0]:
        assert find(trial).state == "finished"
        assert result(tmp_path, trial.name)["resumed_from"] == []
        assert (trial.workdir.path / "starts").read_text().count("trained") == 1


def test_jobs_share_the_gpus(monkeypatch):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2,5")
    devices = [seat["CUDA_VISIBLE_DEVICES"] for seat in local_executor._gpu_shares(2)]
    assert devices == ["0,5", "2"]
    assert local_executor._gpu_shares(1) == [{}]
    with pytest.raises(UserError, match="--jobs 4: this machine has 3 GPUs"):
        local_executor._gpu_shares(4)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert local_executor._gpu_shares(4) == [{}] * 4
    monkeypatch.delenv("JAX_PLATFORMS")
    for none in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert local_executor._gpu_shares(2) == [{}, {}]


def test_a_mistake_makes_no_folder(config, tmp_path, monkeypatch, capsys):
    argv = ["--config", config, *GRID, "--metric", "loss", "--out", str(tmp_path / "sweep")]
    assert "--metric loss: write SPLIT.NAME" in fails(monkeypatch, capsys, argv, sweep.main)
    assert not (tmp_path / "sweep").exists()


def test_resources_that_no_machine_has_are_refused():
    nodes = [
        {"Alive": True, "Resources": {"CPU": 8.0}},
        {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 1.0}},
        {"Alive": False, "Resources": {"CPU": 99.0, "GPU": 99.0}},
    ]
    for fits in ({"cpu": 8}, {"cpu": 2, "gpu": 1}):
        ray_executor._require_room(nodes, fits)
    with pytest.raises(UserError, match="no machine of the Ray cluster has 4 CPU, 1 GPU"):
        ray_executor._require_room(nodes, {"cpu": 4, "gpu": 1})


@pytest.fixture(scope="module")
def trained(config, tmp_path_factory):
    """A sweep of two trials, trained one after the other."""
    out = tmp_path_factory.mktemp("trained")
    sweep.main(["--config", config, *GRID, "--out", str(out)])
    return out


@pytest.fixture
def argv(config, tmp_path):
    return ["--config", config, *GRID, "--out", str(tmp_path)]


def hashes(out):
    return [result(out, trial)["parameters_sha256"] for trial in TRIALS]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--jobs", "2"], ["--executor", "ray"]], ids=str)
def test_concurrent_trials_have_the_same_numbers(trained, argv, flags, tmp_path):
    sweep.main([*argv, *flags])
    assert hashes(tmp_path) == hashes(trained)
    assert {row["state"] for row in rows(tmp_path).values()} == {"finished"}


@pytest.mark.slow
def test_early_stopping_stops_the_worse_trial(argv, tmp_path):
    argv = [*argv, "--executor", "ray", "--jobs", "1", "--asha", "100"]
    argv.append("--config.train.steps=4000")
    sweep.main(argv)
    trials = rows(tmp_path)
    assert [trials[rate]["state"] for rate in ("0.01", "0.001")] == ["finished", "stopped"]
    assert 100 <= int(trials["0.001"]["steps"]) < 4000
    before = (tmp_path / "results.csv").read_text()
    sweep.main(argv)  # stopped trials are not resumed
    assert (tmp_path / "results.csv").read_text() == before


@pytest.mark.slow
def test_a_killed_sweep_resumes(trained, argv, tmp_path):
    process = subprocess.Popen([sys.executable, "-m", "launch.sweep", *argv])
    wait_for(tmp_path / "trials" / TRIALS[1] / "metrics.jsonl")
    process.kill()
    process.wait()
    first = tmp_path / "trials" / TRIALS[0] / "result.json"
    made = first.stat().st_mtime_ns
    sweep.main(argv)
    assert first.stat().st_mtime_ns == made
    assert hashes(tmp_path) == hashes(trained)


@pytest.mark.slow
def test_a_sweep_from_python_is_that_of_the_command(trained, config):
    rates = [0.01, 0.001]
    swept = api.sweep(config, {"optimizer.learning_rate": rates}, out=trained)  # all are finished
    assert [run.result["parameters_sha256"] for run in swept.runs.values()] == hashes(trained)
    values = [result(trained, trial)["metrics"]["dev"]["loss"] for trial in TRIALS]
    losses = dict(zip(rates, values, strict=True))
    assert {row["optimizer.learning_rate"]: row["dev.loss"] for row in swept.rows} == losses
    assert swept.metric == "dev.loss" and not swept.unfinished
    (series,) = swept.charts[0].series
    assert dict(zip(series.x, series.y, strict=True)) == losses
    page = swept._repr_html_()
    assert page.count("<svg ") == 1 and page.count(">finished<") == 2
    assert all(f'<td class="number">{rate}</td>' in page for rate in rates)
