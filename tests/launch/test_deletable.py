"""Deleting a command's folder deletes that command alone: the others still run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launch.__main__ import commands
from tests.launch.commands import toy_config
from tests.test_layers import PACKAGES

ROOT = Path(__file__).parents[2]
FOLDERS = [path.parent.name for path in sorted((ROOT / "launch").glob("*/__main__.py"))]
# Prints the help of all commands, which are those of the arguments.
HELP = """
import importlib, sys
from launch.__main__ import commands, module_of

assert [*commands()] == sys.argv[1:]
for name in commands():
    try:
        importlib.import_module(module_of(name)).main(["--help"])
    except SystemExit as end:
        assert end.code == 0, name
    else:
        sys.exit(f"{name} has no --help")
"""


@pytest.fixture
def tree(tmp_path):
    """A copy of the packages and of the toy task."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "toy.py", tmp_path / "tests")
    return tmp_path


def run(tree, *argv):
    """The output of Python in a copied tree; no other copy of the packages is on its path."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *argv], cwd=tree, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_other_commands_have_help(folder, tree):
    shutil.rmtree(tree / "launch" / folder)
    others = sorted(commands().keys() - {folder})
    printed = run(tree, "-c", HELP, *others)
    assert all(f"python -m launch.{name} " in printed for name in others)


def test_a_run_is_trained_without_any_of_them(tree):
    for folder in FOLDERS:
        shutil.rmtree(tree / "launch" / folder)
    config = toy_config(tree, {"train.steps": 2, "data.cache_dir": str(tree / "cache")})
    run(tree, "-m", "launch.train", "--config", config, "--workdir", str(tree / "run"))
    assert (tree / "run" / "result.json").exists()
