"""A finished run, loaded to be used."""

from pathlib import Path
from typing import Any

import jax

from common_jax.errors import UserError
from common_jax.training.checkpoint import Checkpoints
from common_jax.training.config import MeshConfig
from common_jax.training.mesh import make_mesh, replicated
from common_jax.training.state import init_state, make_optimizer
from common_jax.training.task import Params, Predictor, Task
from common_jax.training.workdir import Workdir


def load(workdir: str | Path, **options: Any) -> Predictor:
    """The best checkpoint of a run as a predictor: `load("runs/csan/quickstart").predict([...])`.

    Args:
      workdir: the run's folder.
      **options: the predictor's own, such as `beam_size` of a translator.

    Raises:
      UserError: if the folder is not that of a run with a checkpoint.
    """
    run = Workdir(workdir)
    task = run.read_task()
    return task.predictor(read_parameters(run, task), **options)


def read_parameters(workdir: Workdir, task: Task) -> Params:
    """The parameters of the best checkpoint.

    Raises:
      UserError: if there is none.
    """
    config = task.config
    if not workdir.checkpoints.is_dir():
        raise UserError(f"{workdir.path}: has no checkpoint yet")
    checkpoints = Checkpoints(workdir.checkpoints, config.train.best_metric)
    try:
        if checkpoints.best is None:
            raise UserError(f"{workdir.path}: has no checkpoint yet")
        mesh, optimizer = make_mesh(MeshConfig(data=1)), make_optimizer(config.optimizer)
        # shapes alone: nothing is initialised only to be replaced
        state = jax.eval_shape(lambda: init_state(task, optimizer, config.train.seed, mesh))
        abstract = jax.tree.map(lambda a: a.update(sharding=replicated(mesh)), state)
        return checkpoints.restore(checkpoints.best, abstract).state.params
    finally:
        checkpoints.close()
