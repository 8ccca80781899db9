"""Deleting a command's folder deletes that command alone, and what a number does not need is not
needed to train."""

import shutil

import pytest

from launch.__main__ import commands
from tests.launch.commands import ROOT, toy_config
from tests.launch.test_environment import started
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
    status, out, messages = started({"PYTHONOPTIMIZE": "2"}, "-c", HELP, *commands())
    assert (status, messages) == (0, "")
    helps = out.split("## ")[1:]
    assert len(helps) == len(commands()) and all("\nexample" in text for text in helps)


def test_a_run_is_trained_without_the_other_commands_in_folders(tmp_path):
    folders = {*copied_packages(tmp_path)} - {"train"}
    for folder in folders:
        shutil.rmtree(tmp_path / "launch" / folder)
    config = toy_config(tmp_path, {"train.steps": 2, "data.cache_dir": str(tmp_path / "cache")})
    argv = ["--config", config, "--workdir", str(tmp_path / "run")]
    alone = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    status, _, messages = started(alone, "-m", "launch.train", *argv, cwd=tmp_path)
    assert folders and status == 0, messages
    assert (tmp_path / "run" / "result.json").exists()


def copied_packages(folder):
    """Copies the packages and the toy task; returns the folders of commands."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    (folder / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "toy.py", folder / "tests")
    return [path.parent.name for path in sorted((ROOT / "launch").glob("*/__main__.py"))]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_other_commands_have_help(folder, tmp_path):
    copied_packages(tmp_path)
    shutil.rmtree(tmp_path / "launch" / folder)
    others = sorted(commands().keys() - {folder})
    alone = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    status, printed, messages = started(alone, "-c", HELP, *others, cwd=tmp_path)
    assert status == 0, messages
    assert all(f"python -m launch.{name} " in printed for name in others)


PREDICTORS = ("service", "predictor")
UNNEEDED = {
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
def test_a_run_trains_without_what_cannot_change_a_number(what, tmp_path):
    copied_packages(tmp_path)
    for name in UNNEEDED[what]:
        (tmp_path / name).unlink()
    family = "csan" if what == "CTranslate2" else "attconv"
    steps = dict.fromkeys(("steps", "evaluate_every", "checkpoint_every"), 2)
    fields = {f"train.{name}": value for name, value in steps.items()} | {
        "train.trackers": "",
        "data.examples": 64,
        "data.holdout_size": 8,
        "data.cache_dir": tmp_path / "cache",
    }
    arguments = [f"--config.{name}={value}" for name, value in fields.items()]
    config = tmp_path / "configs" / family / "quickstart.py"
    alone = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["-m", "launch.train", "--config", str(config), "--workdir", str(tmp_path / "run")]
    status, printed, messages = started(alone, *command, *arguments, cwd=tmp_path)
    assert status == 0, messages
    assert "test: " in printed
