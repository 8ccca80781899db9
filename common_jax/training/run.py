"""A run's parameters, loaded to be used: for predictions, or as another run's beginning."""

import functools
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from common_jax.errors import UserError
from common_jax.training.checkpoint import Checkpoints
from common_jax.training.config import MeshConfig
from common_jax.training.mesh import make_mesh
from common_jax.training.state import abstract_state
from common_jax.training.task import Params, Predictor, Task
from common_jax.training.workdir import Workdir


def load(workdir: str | Path, *, average: int = 1, **options: Any) -> Predictor:
    """The best checkpoint of a run as a predictor: `load("runs/csan/quickstart").predict([...])`.

    Args:
      workdir: the run's folder.
      average: above 1, the mean of the newest so many checkpoints instead of the best.
      **options: the predictor's own, such as `beam_size` of a translator.

    Raises:
      UserError: if the folder is not that of a run with a checkpoint, or for an option that its
        predictor does not have.
    """
    run = Workdir(workdir)
    task = run.read_task()
    if unknown := set(options) - set(task.options):
        known = ", ".join(task.options) or "none"
        raise UserError(f"{run.path}: its predictor has no option {min(unknown)}; it has {known}")
    mesh = make_mesh(MeshConfig(data=1))
    return task.predictor(read_parameters(run, task, mesh, average), **options)


def read_parameters(workdir: Workdir, task: Task, mesh: Mesh, average: int = 1) -> Params:
    """The parameters (or their moving average, if the run has one) of the best checkpoint, or the
    mean of those of the newest `average` checkpoints.

    Raises:
      UserError: if there are not as many, or one is damaged.
    """
    checkpoints = Checkpoints(workdir.checkpoints, task.config.train.best_metric)
    best = checkpoints.best
    if best is None:
        raise UserError(f"{workdir.path}: has no checkpoint yet")
    steps = checkpoints.steps[-average:] if average > 1 else [best]
    if len(steps) < average:
        raise UserError(
            f"{workdir.path}: has {len(steps)} checkpoints, too few to average {average}; "
            "train.keep_checkpoints says how many a run keeps"
        )
    part = "ema" if task.config.train.ema_decay else "params"
    abstract = getattr(abstract_state(task, mesh), part)
    read = [checkpoints.restore_part(step, part, abstract) for step in steps]
    return jax.tree.map(lambda *leaves: functools.reduce(jnp.add, leaves) / len(leaves), *read)


def starting_parameters(task: Task, abstract: Params) -> Params:
    """What `train.init_from` names, on the shapes and shardings of this run's parameters.

    Raises:
      UserError: if that run has another model or another vocabulary.
    """
    source = Workdir(task.config.train.init_from)
    other = source.read_task()
    if _vocabulary(other) != _vocabulary(task):
        raise UserError(f"train.init_from={source.path}: has another vocabulary than this run")
    checkpoints = Checkpoints(source.checkpoints, other.config.train.best_metric)
    best = checkpoints.best
    if best is None:
        raise UserError(f"train.init_from={source.path}: has no checkpoint yet")
    part = "ema" if other.config.train.ema_decay else "params"
    return checkpoints.restore_part(best, part, abstract)


def _vocabulary(task: Task) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        task.write_vocabulary(Path(folder))
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
