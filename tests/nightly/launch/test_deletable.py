"""Deleting a command's folder deletes that command alone: the others still have their help."""

import shutil

import pytest

from launch.__main__ import commands
from tests.launch.commands import ROOT
from tests.launch.test_environment import HELP, copied_packages, started

FOLDERS = [path.parent.name for path in sorted((ROOT / "launch").glob("*/__main__.py"))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_other_commands_have_help(folder, tmp_path):
    copied_packages(tmp_path)
    shutil.rmtree(tmp_path / "launch" / folder)
    others = sorted(commands().keys() - {folder})
    alone = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    status, printed, messages = started(alone, "-c", HELP, *others, cwd=tmp_path)
    assert status == 0, messages
    assert all(f"python -m launch.{name} " in printed for name in others)
