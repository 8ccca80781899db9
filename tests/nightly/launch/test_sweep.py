"""Sweeps in several processes, on Ray, killed, and from Python have the numbers of one process."""

import signal
import subprocess
import sys

import pytest

from launch import api
from launch.sweep import __main__ as sweep
from tests.launch.sweep.test_sweep import (  # noqa: F401
    GRID,
    TRIALS,
    config,
    processes,
    result,
    rows,
    wait_for,
)


@pytest.fixture(scope="module")
def trained(config, tmp_path_factory):  # noqa: F811
    """A sweep of two trials, trained one after the other."""
    out = tmp_path_factory.mktemp("trained")
    sweep.main(["--config", config, *GRID, "--out", str(out)])
    return out


@pytest.fixture
def argv(config, tmp_path):  # noqa: F811
    return ["--config", config, *GRID, "--out", str(tmp_path)]


def hashes(out):
    return [result(out, trial)["parameters_sha256"] for trial in TRIALS]


def begun(argv):
    command = [sys.executable, "-m", "launch.sweep", *argv]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("flags", [["--jobs", "2"], ["--executor", "ray"]], ids=str)
def test_concurrent_trials_have_the_same_numbers(trained, argv, flags, tmp_path):
    sweep.main([*argv, *flags])
    assert hashes(tmp_path) == hashes(trained)
    assert {row["state"] for row in rows(tmp_path).values()} == {"finished"}


def test_two_sweeps_in_processes_share_the_work(trained, argv, tmp_path):
    for process in [begun(argv) for _ in range(2)]:
        errors = process.communicate()[1]
        assert process.returncode == 0, errors
    assert hashes(tmp_path) == hashes(trained)
    assert {row["state"] for row in rows(tmp_path).values()} == {"finished"}
    assert all(result(tmp_path, trial)["resumed_from"] == [] for trial in TRIALS)


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_sweep_resumes(trained, argv, tmp_path, number):
    process = begun(argv)
    wait_for(tmp_path / "trials" / TRIALS[1] / "metrics.jsonl")
    process.send_signal(number)
    errors = process.communicate()[1]
    first = tmp_path / "trials" / TRIALS[0] / "result.json"
    made = first.stat().st_mtime_ns
    if number == signal.SIGTERM:
        assert process.returncode == 128 + signal.SIGTERM
        assert errors.splitlines()[-1] == "SIGTERM: the same command resumes from there"
    sweep.main(argv)
    assert first.stat().st_mtime_ns == made
    assert hashes(tmp_path) == hashes(trained)


def test_a_sweep_from_python_is_that_of_the_command(trained, config):  # noqa: F811
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
