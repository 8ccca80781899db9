"""Reads the parameters of a run or an export, for predictions or to initialize another run."""

import dataclasses
import functools
import logging
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from common_jax.errors import UserError, error_context
from common_jax.export.format import ORBAX, PARAMETERS, Export
from common_jax.export.sizes import require_config
from common_jax.export.weights import require_scales, restored, stored
from common_jax.io.named import is_name
from common_jax.io.parameters import (
    named_parameters,
    nested_parameters,
    read_safetensors,
    require_same,
)
from common_jax.training.config import read_task
from common_jax.training.run_folder import RunFolder
from common_jax.training.state import abstract_parameters
from common_jax.training.task import Params, Task

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Parameters and their source in a run.

    Attributes:
      step: the best, or the newest of several.
      average: the number of checkpoints averaged.
      ema: whether they are the moving average.
    """

    values: Params
    step: int
    average: int
    ema: bool


def read_parameters(
    workdir: RunFolder, task: Task, mesh: Mesh, average: int = 1, ema: bool | None = None
) -> Parameters:
    """The parameters of the best checkpoint, the mean of the newest `average`, or an export's.

    Args:
      ema: whether to read the moving average instead; None is whether the run has one.

    Raises:
      UserError: for too few checkpoints, no moving average, or a damaged checkpoint.
    """
    return _read(workdir, task, abstract_parameters(task, mesh), average, ema)


def starting_parameters(task: Task, fresh: Params, mesh: Mesh) -> Params:
    """The parameters of `train.init_from`; fresh ones for `Task.new_parameters`.

    Args:
      fresh: the initial parameters of this run, with their shardings.

    Raises:
      UserError: if that run has another model or another vocabulary.
    """
    given = task.config.train.init_from
    with error_context("train.init_from"):
        export = Export(given) if is_name(given) else None
        source = RunFolder(export.path if export else given, export)
        if source.export is not None:
            require_config(source.export)
        other = read_task(source)
        if not task.has_vocabulary_of(other):
            raise UserError(
                f"{source.path}: has another vocabulary than this run; "
                f"data.vocabulary_from={source.path} would use that one"
            )
        new, initial = task.new_parameters(other), named_parameters(fresh)
        saved = named_parameters(abstract_parameters(other, mesh))
        abstract = {
            name: saved.get(name, leaf) if name in new else _abstract(leaf)
            for name, leaf in initial.items()
        }
        read = named_parameters(_read(source, other, nested_parameters(abstract)).values)
        if new:
            _log.info("new parameters, as the labels of %s differ: %s", source.path, ", ".join(new))
        return nested_parameters({n: initial[n] if n in new else leaf for n, leaf in read.items()})


def _abstract(leaf: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)


def _read(
    workdir: RunFolder, task: Task, abstract: Params, average: int = 1, ema: bool | None = None
) -> Parameters:
    if workdir.export is not None:
        if average > 1 or ema is not None:
            raise UserError(f"{workdir.path}: an export, whose parameters are fixed")
        return _read_export(workdir.export, abstract)
    from common_jax.training.checkpoint import Checkpoints  # imports Orbax, as the one below

    checkpoints = Checkpoints(workdir, task.config.train.best_metric)
    best = checkpoints.best
    if best is None:
        raise UserError(f"{workdir.path}: has no checkpoint yet")
    has_ema = bool(task.config.train.ema_decay)
    if ema and not has_ema:
        raise UserError(f"{workdir.path}: has no moving average (train.ema_decay=0)")
    newest = checkpoints.steps[-task.config.train.keep_checkpoints :]  # the best may be older
    steps = newest[-average:] if average > 1 else [best]
    if len(steps) < average:
        raise UserError(
            f"{workdir.path}: has {len(steps)} checkpoints, too few to average {average}; "
            "see train.keep_checkpoints"
        )
    part = "ema" if has_ema and ema is not False else "params"
    read = [checkpoints.restore_part(step, part, abstract) for step in steps]
    return Parameters(_mean(read), steps[-1], average, part == "ema")


def _mean(trees: Sequence[Params]) -> Params:
    """The mean of parameters; a single tree unchanged, without compiling anything."""
    if len(trees) == 1:
        return trees[0]
    return jax.tree.map(lambda *leaves: functools.reduce(jnp.add, leaves) / len(leaves), *trees)


def _read_export(export: Export, abstract: Params) -> Parameters:
    """The parameters of an export in any format but "ctranslate2"."""
    source = export.manifest.source
    if export.manifest.format == "orbax":
        from common_jax.training.restore import UnreadableError, read_state

        try:
            values = read_state(export.path / ORBAX, abstract)
        except UnreadableError as error:
            raise UserError(f"{export.path}: {error}") from error
    else:
        file, dtype = export.path / PARAMETERS, export.manifest.dtype
        saved = read_safetensors(file)
        expected = jax.eval_shape(functools.partial(stored, dtype=dtype), abstract)
        require_same(str(file), saved, expected)
        require_scales(str(file), saved)
        values = jax.device_put(restored(saved), jax.tree.map(lambda a: a.sharding, abstract))
    return Parameters(values, source["step"], source["average"], source["ema"])
