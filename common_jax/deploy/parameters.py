"""Reads the parameters of a run or an export, for predictions or to initialize another run."""

import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from common_jax.deploy.format import FORMATS, ORBAX, PARAMETERS, Export
from common_jax.deploy.named import located
from common_jax.deploy.safetensors_file import read_safetensors
from common_jax.deploy.weights import require_scales, restored, stored_shapes
from common_jax.errors import UserError, error_context
from common_jax.io.parameters import (
    named_parameters,
    nested_parameters,
    require_same,
)
from common_jax.io.paths import AnyPath
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


class Source(NamedTuple):
    """A run, or a verified export.

    Attributes:
      folder: reads the config and the vocabulary of either.
      export: None for a run.
    """

    folder: RunFolder
    export: Export | None


def source_of(path: str | AnyPath | Export) -> Source:
    """The run or the export of a path or a name.

    Raises:
      UserError: for a damaged export, or one that declares sizes beyond its parameters.
    """
    if isinstance(path, Export) or Export.is_at(path):
        export = path if isinstance(path, Export) else Export(path)
        export.require_sizes()
        return Source(RunFolder(export.path), export)
    return Source(RunFolder(located(path)), None)


def read_parameters(
    source: Source | RunFolder, task: Task, mesh: Mesh, average: int = 1, ema: bool | None = None
) -> Parameters:
    """The parameters of the best checkpoint, the mean of the newest `average`, or an export's.

    Args:
      ema: whether to read the moving average instead; None is whether the run has one.

    Raises:
      UserError: for too few checkpoints, no moving average, or a damaged checkpoint.
    """
    if isinstance(source, RunFolder):
        source = Source(source, None)
    return _read(source, task, abstract_parameters(task, mesh), average, ema)


def starting_parameters(
    task: Task,
    fresh: Params,
    mesh: Mesh,
    *,
    open_source: Callable[[str], Source] = source_of,
) -> Params:
    """The parameters of `train.init_from`; fresh ones for `Task.new_parameters`.

    Args:
      fresh: the initial parameters of this run, with their shardings.
      open_source: gives the run or the export of its path.

    Raises:
      UserError: if that run has another model or another vocabulary.
    """
    with error_context("train.init_from"):
        source = open_source(task.config.train.init_from)
        path = source.folder.path
        other = read_task(source.folder)
        if not task.has_vocabulary_of(other):
            raise UserError(
                f"{path}: has another vocabulary than this run; "
                f"data.vocabulary_from={path} would use that one"
            )

        # shapes: of parameters that are not taken over, those of the other run, to be read
        new = task.new_parameters(other)
        initial = named_parameters(fresh)
        saved = named_parameters(abstract_parameters(other, mesh))
        abstract = {
            name: saved.get(name, leaf) if name in new else _abstract(leaf)
            for name, leaf in initial.items()
        }

        read = named_parameters(_read(source, other, nested_parameters(abstract)).values)
        if new:
            _log.info("new parameters, as the labels of %s differ: %s", path, ", ".join(new))
        return nested_parameters({n: initial[n] if n in new else leaf for n, leaf in read.items()})


def _abstract(leaf: jax.Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)


def _read(
    source: Source, task: Task, abstract: Params, average: int = 1, ema: bool | None = None
) -> Parameters:
    if source.export is not None:
        if average > 1 or ema is not None:
            raise UserError(f"{source.folder.path}: an export, whose parameters are fixed")
        return _read_export(source.export, abstract)
    workdir = source.folder
    from common_jax.training.checkpoint import Checkpoints  # imports Orbax, as the one below

    checkpoints = Checkpoints(workdir, task.config.train.best_metric)
    best = checkpoints.best
    if best is None:
        raise UserError(f"{workdir.path}: has not been trained: it has no checkpoint")
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
    """The parameters of an export as float32.

    Raises:
      UserError: if it has none in a format that this suite reads, or others than `abstract`.
    """
    manifest = export.manifest
    if manifest.format == "orbax":
        from common_jax.training.restore import UnreadableError, read_state

        try:
            values = read_state(export.path / ORBAX, abstract)
        except UnreadableError as error:
            raise UserError(f"{export.path}: {error}") from error
    else:
        if manifest.format not in FORMATS:
            raise UserError(
                f"{export.file}: format={manifest.format!r}: has no parameters that this suite "
                f"reads, as {' | '.join(FORMATS)} have"
            )
        file = export.path / PARAMETERS
        saved = read_safetensors(file)
        require_same(str(file), saved, stored_shapes(abstract, manifest.dtype))
        require_scales(str(file), saved)
        values = jax.device_put(restored(saved), jax.tree.map(lambda a: a.sharding, abstract))
    source = manifest.source
    return Parameters(values, source["step"], source["average"], source["ema"])
