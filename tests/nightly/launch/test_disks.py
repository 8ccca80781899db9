"""Runs on disks without locks and with limits of a file's size.

A disk without locks is one on which the system's calls fail (`tests.nightly.launch.no_locks`), for
TensorStore too.
"""

import errno
import os
import subprocess
import sys

import pytest

from launch.train import __main__ as train
from tests.families.runs import FAMILIES
from tests.launch.commands import arguments, toy_config
from tests.launch.tiny_runs import ROOT, TINY
from tests.nightly.launch.jobs import killed_and_resumed, needs_seccomp

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
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # a limited process would cut it off
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


@needs_seccomp
@pytest.mark.parametrize(
    ("family", "number"),
    [("csan", errno.ENOLCK), ("qanet", errno.ENOSYS), ("attconv", errno.ENOLCK)],
)
def test_a_killed_run_of_each_family_on_a_disk_without_locks_resumes(tmp_path, family, number):
    config = ROOT / "configs" / family / "quickstart.py"
    killed_and_resumed(tmp_path, number, config, **TINY[family])


def test_checkpoints_that_are_too_large_are_one_line(tiny, tmp_path):
    """Of a first step, and of a step after others, as on a disk that is full."""
    argv = arguments(toy_config(tmp_path), tmp_path, **{"train.steps": 4})
    train.main([*argv, "--prepare"])
    folder = tiny("attconv", tmp_path / "attconv")
    longer = FAMILIES["attconv"].arguments(folder, **{"train.steps": 6})
    for run, size, command, saved in (
        (tmp_path / "run", 2000, argv, "nothing is saved yet"),
        (folder / "run", 4096, longer, "step 4 is safely saved"),
    ):
        *before, line = limited(tmp_path, size, *command)
        reason = f"cannot be written: File too large; {saved}"
        assert line == f"error: {run}/checkpoints: {reason}"
        assert len(before) < 10 and "Traceback" not in "".join(before), before
