"""Deleting a command's folder deletes that command alone, and what a number does not need is not
needed to train."""

import shutil

import pytest

from launch.__main__ import commands
from tests.launch.commands import ROOT, arguments, python
from tests.test_layers import PACKAGES

FOLDERS = [path.parent.name for path in sorted((ROOT / "launch").glob("*/__main__.py"))]
# Prints the help of all commands, those of the arguments, each below a line with its name.
HELP = """
import importlib, sys
from launch.__main__ import commands, module_of

if [*commands()] != sys.argv[1:]:
    sys.exit(f"the commands are {[*commands()]}")
for name in commands():
    print(f"## {name}")
    try:
        importlib.import_module(module_of(name)).main(["--help"])
    except SystemExit as end:
        if end.code:
            raise
    else:
        sys.exit(f"{name} has no --help")
"""


def test_help_without_docstrings():
    status, out, messages = python("-c", HELP, *commands(), PYTHONOPTIMIZE="2")
    assert (status, messages) == (0, "")
    helps = out.split("## ")[1:]
    assert len(helps) == len(commands()) and all("\nexample" in text for text in helps)


@pytest.fixture
def printed(tmp_path):
    """The output of Python in a copy of the packages without some of their files and folders."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)

    def printed(removed, *words):
        for path in [tmp_path / name for name in removed]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        alone = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        status, out, messages = python(*words, cwd=tmp_path, **alone)
        assert status == 0, messages
        return out

    return printed


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_other_commands_have_help(folder, printed):
    others = sorted(commands().keys() - {folder})
    helps = printed([f"launch/{folder}"], "-c", HELP, *others)
    assert all(f"python -m launch.{name} " in helps for name in others)


PREDICTORS = ("service", "predictor")
UNNEEDED = {
    "the other commands in folders": [f"launch/{name}" for name in FOLDERS if name != "train"],
    "buckets": ["common_jax/io/bucket.py", "common_jax/io/bucket_folder.py"],
    "the hub": ["common_jax/deploy/hub.py"],
    "trackers": ["common_jax/training/trackers.py"],
    "CTranslate2": ["csan_jax/engine.py"],
    "predictors": [
        *(f"common_jax/deploy/{name}.py" for name in ("service", "predictor", "loading", "schema")),
        *(f"attconv_jax/{name}.py" for name in PREDICTORS),
    ],
}


@pytest.mark.parametrize("what", UNNEEDED)
def test_a_run_trains_without_what_cannot_change_a_number(what, printed, tmp_path):
    family = "csan" if what == "CTranslate2" else "attconv"
    steps = dict.fromkeys(("steps", "evaluate_every", "checkpoint_every"), 2)
    fields = {f"train.{name}": value for name, value in steps.items()}
    fields |= {"train.trackers": "", "data.examples": 64, "data.holdout_size": 8}
    config = str(tmp_path / "configs" / family / "quickstart.py")
    argv = arguments(config, tmp_path, **fields)
    assert "test: " in printed(UNNEEDED[what], "-m", "launch.train", *argv)
