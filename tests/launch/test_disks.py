"""Paths, homes and sizes of files that a run cannot have; tests/nightly/launch has other disks."""

import pwd

import pytest

from common_jax.errors import UserError
from common_jax.io.paths import expand_user
from common_jax.training.run_folder import RunFolder
from launch.train import __main__ as train
from tests.launch.commands import fails, toy_config


def test_a_path_that_checkpoints_cannot_have_makes_no_folder(tmp_path, monkeypatch, capsys):
    argv = ["--config", toy_config(tmp_path), "--workdir", str(tmp_path / "a[1]")]
    assert "[ in the path of a run: the libraries" in fails(monkeypatch, capsys, argv, train.main)
    assert not (tmp_path / "a[1]").exists()


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
