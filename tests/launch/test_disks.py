"""Paths, homes and sizes of files that a run cannot have; tests/nightly/launch has other disks."""

import os
import pwd
import subprocess
import sys

import pytest

from common_jax.errors import UserError
from common_jax.io.paths import expand_user
from common_jax.training.run_folder import RunFolder
from launch.train import __main__ as train
from tests.launch.commands import ROOT, fails, toy_config


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


def test_a_home_that_is_not_there_is_refused_by_name(tmp_path, monkeypatch, capsys):
    """HOME is not set, and the user is not in the list of users, as in some containers."""

    def unknown(user):
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("HOME")
    monkeypatch.chdir(tmp_path)
    missing = "this user has no home folder: set the variable HOME, or write the path"
    with pytest.raises(UserError, match=f"^~/x: {missing}$"):
        expand_user("~/x")
    assert expand_user("a/~") == "a/~"
    argv = ["--config", toy_config(tmp_path), "--workdir", "run"]
    argv += ["--config.data.cache_dir=~/corpora"]
    line = fails(monkeypatch, capsys, argv, train.main)
    assert line == f"error: data.cache_dir=~/corpora: {missing}"
    assert not (tmp_path / "~").exists()


LIMITED = """
import resource, sys
from launch import cli
from launch.train import __main__ as train
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
if sys.argv[2:]:
    cli.run(train.main, sys.argv[2:])
cli.run(lambda argv: print("result"))
"""


def limited(folder, size, *argv):
    """The lines on standard error of a process that may write files of at most `size` bytes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}
    command = [sys.executable, "-c", LIMITED, str(size), *argv]
    with (folder / "out").open("wb") as out:
        done = subprocess.run(
            command, stdout=out, stderr=subprocess.PIPE, cwd=folder, env=environment, text=True
        )
    assert done.returncode == 2
    return done.stderr.splitlines()


def test_a_result_that_is_too_large_is_one_line(tmp_path):
    """The limit of a file's size, of a process or a disk."""
    assert limited(tmp_path, 0) == ["error: standard output: File too large"]
