"""Deleting a command's folder deletes that command alone, and what a number does not need is not
needed to train."""

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
