"""All commands on runs and exports with the former names of parameters."""

import json
import shutil

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from safetensors.numpy import load_file, save_file

from common_jax.deploy import load
from common_jax.io import checksums
from common_jax.io.parameters import named_parameters, nested_parameters
from common_jax.training.checkpoint import Checkpoints
from common_jax.training.config import parse, read_task, task_class
from common_jax.training.load_parameters import read_parameters, starting_parameters
from common_jax.training.mesh import make_mesh
from common_jax.training.run_folder import RunFolder
from common_jax.training.state import abstract_state
from launch import train
from tests.launch import commands
from tests.old_parameters import with_old_names

CONFIG = "configs/attconv/quickstart.py"
LINES = ["a man rides a horse .\ta man is outside ."]
VALUES = {
    "data.source": "generated",
    "data.examples": 60,
    "data.holdout_size": 16,
    "data.batch_size": 8,
    "words.dim": 4,
    "model.dim": 4,
    "train.evaluate_every": 2,
    "train.checkpoint_every": 2,
    "train.ema_decay": 0.5,
    "mesh.data": 1,
}


def arguments(folder, run, steps, **changes):
    return commands.arguments(CONFIG, folder, run, **VALUES, **{"train.steps": steps, **changes})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run and its exports, and a copy of each with old names (`old-run` and so on)."""
    folder = tmp_path_factory.mktemp("old")
    train.main(arguments(folder, "run", 4))
    exports = commands.exports(folder)
    for name in ("run", "safetensors", "orbax"):
        shutil.copytree(folder / name, folder / f"old-{name}")
    _rename_run(folder / "run", folder / "old-run")
    config = folder / "old-run" / "config.json"
    config.write_text(config.read_text().replace("SentenceClassification", "Judgement"))
    file = folder / "old-safetensors" / "parameters.safetensors"
    params = with_old_names("attconv", nested_parameters(load_file(file)))
    save_file(named_parameters(params), file)
    saved = folder / "old-orbax" / "parameters"
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as orbax:
        params = with_old_names("attconv", orbax.restore(exports["orbax"] / "parameters"))
        shutil.rmtree(saved)
        orbax.save(saved, params)
    for form in ("safetensors", "orbax"):
        (folder / f"old-{form}" / "checksums.json").unlink()
        checksums.seal(folder / f"old-{form}")
    return folder


def _rename_run(run, target):
    abstract = _abstract(read_task(RunFolder(run)))
    there = Checkpoints(RunFolder(run), "accuracy")
    shutil.rmtree(target / "checkpoints")
    renamed = Checkpoints(RunFolder(target), "accuracy")
    for step in there.steps:
        saved = there.restore(step, abstract)
        metrics = json.loads((run / "checkpoints" / str(step) / "metrics" / "metrics").read_text())
        renamed.save(with_old_names("attconv", saved.state), step, saved.position, metrics)
    renamed.close()


def _abstract(task):
    return abstract_state(task, make_mesh(task.config.mesh))


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(np.testing.assert_array_equal, one, other)


def names(run, step):
    """The names of the parameters in a checkpoint."""
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as orbax:
        return {*orbax.restore(run / "checkpoints" / str(step) / "state")["params"]}


@pytest.mark.parametrize("name", ["run", "safetensors", "orbax"])
def test_predictions_equal_those_with_new_names(folder, name):
    old, new = (list(load(folder / f"{age}{name}").predict(LINES)) for age in ("old-", ""))
    assert old == new


@pytest.mark.parametrize("name", ["run", "safetensors", "orbax"])
def test_another_run_is_initialized_from_it(folder, name):
    key = "--config.train.init_from"
    overrides = [f"--config.{name}={value}" for name, value in VALUES.items()]
    names = []
    for age in ("old-", ""):
        config = parse(CONFIG, [*overrides, f"{key}={folder / f'{age}{name}'}"])
        task = task_class(config.task)(config)
        task.read_vocabulary(folder / "run" / "vocabulary")
        names.append(starting_parameters(task, _abstract(task).params))
    same(*names)


def test_a_resumed_run_has_new_names(folder, tmp_path):
    results, means = [], []
    for name in ("run", "old-run"):
        shutil.copytree(folder / name, tmp_path / name)
        argv = arguments(folder, name, 6)
        train.main([*argv[:-1], str(tmp_path / name)])
        results.append(json.loads((tmp_path / name / "result.json").read_text()))
        run = RunFolder(tmp_path / name)
        task = read_task(run)
        means.append(read_parameters(run, task, make_mesh(task.config.mesh), average=2).values)
    assert [result["resumed_from"] for result in results] == [[4], [4]]
    assert results[0]["parameters_sha256"] == results[1]["parameters_sha256"]
    assert "regression" in names(tmp_path / "old-run", 4) - names(tmp_path / "run", 4)
    assert names(tmp_path / "old-run", 6) == names(tmp_path / "run", 6)
    same(*means)
