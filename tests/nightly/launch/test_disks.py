"""Runs on disks without locks and with limits of a file's size.

A disk without locks is one on which the system's calls fail (`tests.nightly.launch.no_locks`), for
TensorStore too.
"""

import errno
import re

import pytest

from launch.train import __main__ as train
from tests.launch.commands import toy_config
from tests.launch.test_disks import limited
from tests.launch.tiny_runs import ROOT, SMALL, TINY
from tests.nightly.launch.jobs import killed_and_resumed, needs_seccomp


@needs_seccomp
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_a_killed_run_on_a_disk_without_locks_resumes(tmp_path, number):
    killed_and_resumed(tmp_path, number, toy_config(tmp_path))


@needs_seccomp
@pytest.mark.parametrize("family", SMALL)
def test_a_killed_run_of_each_family_on_a_disk_without_locks_resumes(tmp_path, family):
    config = ROOT / "configs" / family / "quickstart.py"
    killed_and_resumed(tmp_path, errno.ENOLCK, config, **TINY[family])


def test_checkpoints_that_are_too_large_are_one_line(tmp_path):
    argv = ["--config", toy_config(tmp_path), "--workdir", str(tmp_path / "run")]
    argv += [f"--config.data.cache_dir={tmp_path / 'corpus'}", "--config.train.steps=4"]
    train.main([*argv, "--prepare"])
    *before, line = limited(tmp_path, 2000, *argv)
    folder = tmp_path / "run" / "checkpoints"
    assert line == f"error: {folder}: cannot be written: File too large; nothing is saved yet"
    assert all(re.match(r"step \d+/4  |train: |dev: |test: ", text) for text in before), before
