"""Disks that are not like ours: without locks, with limits, and runs in unusual paths.

A disk without locks is one on which the system's calls fail (`tests.launch.no_locks`), for
TensorStore too. One killed run is among the slow tests for each family and errno:

  pytest -m slow tests/launch/test_disks.py -n 0 -s
"""

import errno
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from common_jax.errors import UserError
from common_jax.io.paths import expand_user
from common_jax.training.run_folder import RunFolder
from launch import evaluate, train
from tests.launch.commands import fails, toy_config
from tests.launch.no_locks import SUPPORTED
from tests.launch.tiny_runs import EVERY_STEP, ROOT, SMALL, TINY, lines, result

LEASE = 4
DVS = 524  # ENOTSUPP of the kernel, which has no name in errno

needs_seccomp = pytest.mark.skipif(not SUPPORTED, reason="needs Linux's seccomp")


def begin(number, config, run, corpus, log, **overrides):
    """Starts a training on disks whose locks fail with an errno; None for locks."""
    values = {**EVERY_STEP, "data.cache_dir": corpus, **overrides}
    if "toy" in str(config):
        del values["data.max_shapes"]
    command = [sys.executable, "-m", "launch.train", "--config", str(config)]
    command += [f"--config.{key}={value}" for key, value in values.items()]
    if number is not None:
        command = [sys.executable, str(ROOT / "tests/launch/no_locks.py"), str(number), *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    environment["CONV_ATTENTION_LEASE_SECONDS"] = str(LEASE)
    environment["JAX_COMPILATION_CACHE_DIR"] = str(corpus.with_name("compiled"))
    with log.open("wb") as output:
        return subprocess.Popen(
            [*command, "--workdir", str(run)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=output,
            cwd=ROOT,
        )


def reach(process, run, step, log):
    path = run / "metrics.jsonl"
    while not path.exists() or max((x["step"] for x in lines(run)), default=0) < step:
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)


def killed_and_resumed(folder, number, config, **overrides):
    """A run on a disk without locks: a second command is refused, and after a kill one resumes."""
    run, corpus, log, second = (folder / name for name in ("run", "corpus", "log", "second"))
    arguments = (config, run, corpus)
    long = {**overrides, "train.steps": 4000, "train.checkpoint_every": 4}
    first = begin(number, *arguments, log, **long)
    reach(first, run, 8, log)
    assert begin(number, *arguments, second, **long).wait() == 2
    holder = rf"process {first.pid} on \S+"
    assert re.search(
        rf"^error: {run} is being trained by {holder}; wait for it, or choose another --workdir$",
        second.read_text(),
        re.MULTILINE,
    )
    first.send_signal(signal.SIGKILL)
    first.wait()
    steps = max(
        int(path.name) for path in (run / "checkpoints").glob("[0-9]*") if path.name.isdigit()
    )
    last = begin(number, *arguments, log, **{**long, "train.steps": steps + 4})
    assert last.wait() == 0, log.read_text()
    output = log.read_text()
    assert result(run)["resumed_from"] == [steps] and not (run / "damaged").exists()
    assert output.count("this disk has no file locks (") == 1
    assert re.search(rf"{run}: waiting {LEASE} s, the lease of {holder}$", output, re.MULTILINE)
    print(f"\nerrno {number}: status 2 beside the holder; killed; status 0, resumed from {steps}")
    print(*(line for line in output.splitlines() if "lease" in line), sep="\n")


@needs_seccomp
@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, DVS])
def test_a_killed_run_on_a_disk_without_locks_resumes(tmp_path, number):
    killed_and_resumed(tmp_path, number, toy_config(tmp_path))


@needs_seccomp
@pytest.mark.slow
@pytest.mark.parametrize("family", SMALL)
def test_a_killed_run_of_each_family_on_a_disk_without_locks_resumes(tmp_path, family):
    config = ROOT / "configs" / family / "quickstart.py"
    killed_and_resumed(tmp_path, errno.ENOLCK, config, **TINY[family])


@needs_seccomp
def test_checkpoints_are_written_and_read_on_a_disk_without_locks(tmp_path):
    log = tmp_path / "log"
    config = toy_config(tmp_path)
    process = begin(DVS, config, tmp_path / "run", tmp_path / "corpus", log)
    assert process.wait() == 0, log.read_text()
    assert log.read_text().count("this disk has no file locks (") == 1
    assert len(result(tmp_path / "run")["metrics"]) == 2
    assert not [*tmp_path.rglob("*__lock")]


@pytest.mark.parametrize("name", ["ru\\n", "a[1]"])
def test_a_path_that_checkpoints_cannot_have_is_refused(tmp_path, monkeypatch, capsys, name):
    argv = ["--config", toy_config(tmp_path), "--workdir", str(tmp_path / name)]
    line = fails(monkeypatch, capsys, argv, train.main)
    character = next(c for c in "\\[" if c in name)
    assert f"{tmp_path / name}: {character} in the path of a run: the libraries" in line
    assert not (tmp_path / name).exists()


def test_a_folder_above_counts_too(tmp_path, monkeypatch):
    (tmp_path / "a\\b").mkdir()
    monkeypatch.chdir(tmp_path / "a\\b")
    with pytest.raises(UserError, match=r"a\\b/run: \\ in the path of a run"):
        RunFolder("run").require_path()


@pytest.mark.parametrize("command", [train, evaluate])
def test_a_home_that_is_not_there_is_refused_by_name(tmp_path, monkeypatch, capsys, command):
    """HOME is not set, and the user is not in the list of users, as in some containers."""
    import pwd

    def unknown(user):
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("HOME")
    monkeypatch.chdir(tmp_path)
    missing = "this user has no home folder: set the variable HOME, or write the path"
    with pytest.raises(UserError, match=f"^~/x: {missing}$"):
        expand_user("~/x")
    assert expand_user("a/~") == "a/~"
    if command is train:
        argv = ["--config", toy_config(tmp_path), "--workdir", "run"]
        argv += ["--config.data.cache_dir=~/corpora"]
        line = fails(monkeypatch, capsys, argv, train.main)
        assert line == f"error: data.cache_dir=~/corpora: {missing}"
        assert not (tmp_path / "~").exists()


LIMITED = """
import resource, sys
from launch import cli, train
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
if sys.argv[2:]:
    cli.run(train.main, sys.argv[2:])
cli.run(lambda argv: print("result"))
"""


@pytest.mark.parametrize("what", ["checkpoints", "standard output"])
def test_a_file_that_is_too_large_is_one_line(tmp_path, what):
    """The limit of a file's size, of a process or a disk."""
    argv = []
    if what == "checkpoints":
        argv = ["--config", toy_config(tmp_path), "--workdir", str(tmp_path / "run")]
        argv += [f"--config.data.cache_dir={tmp_path / 'corpus'}", "--config.train.steps=4"]
        train.main([*argv, "--prepare"])
    command = [sys.executable, "-c", LIMITED, "2000" if argv else "0", *argv]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            command, stdout=out, stderr=subprocess.PIPE, cwd=tmp_path, env=environment, text=True
        )
    assert done.returncode == 2
    *before, line = done.stderr.splitlines()
    if not argv:
        assert not before and line == "error: standard output: File too large"
        return
    folder = tmp_path / "run" / "checkpoints"
    assert line == f"error: {folder}: cannot be written: File too large; nothing is saved yet"
    assert all(re.match(r"step \d+/4  |train: |dev: |test: ", text) for text in before), before
