"""Exports the model of a run: writes the folder that `common_jax.export.format` reads."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from common_jax.config import MeshConfig
from common_jax.deploy.card import model_card
from common_jax.deploy.comparison import compare, require_split
from common_jax.deploy.shareable import shareable
from common_jax.errors import UserError
from common_jax.export.format import (
    CARD,
    CONFIG,
    DTYPES,
    ENGINE,
    MANIFEST,
    ORBAX,
    PARAMETERS,
    PROGRAMS,
    VERSION,
    VOCABULARY,
    Dtype,
    Format,
    Manifest,
)
from common_jax.export.weights import stored
from common_jax.io import checksums
from common_jax.io.atomic import write_json, writing
from common_jax.io.folder import COMMITTED
from common_jax.io.json_files import read_json
from common_jax.io.parameters import write_safetensors
from common_jax.io.paths import AnyPath, as_path
from common_jax.io.storage import folder_of
from common_jax.training.config import read_task
from common_jax.training.load_parameters import read_parameters
from common_jax.training.mesh import make_mesh
from common_jax.training.run_folder import RunFolder
from common_jax.training.task import Params, Task
from common_jax.versions import versions


def export(
    workdir: RunFolder,
    out: AnyPath,
    format: Format,
    *,
    average: int = 1,
    ema: bool | None = None,
    choices: Mapping[str, Sequence[int]] | None = None,
    decoding: Mapping[str, Any] | None = None,
    dtype: Dtype = "float32",
    split: str = "",
    command: str = "",
    name: str = "",
    license: str = "",
) -> Manifest:
    """Writes the export of a run to a new folder, atomically.

    Args:
      average, ema: which parameters, as for `read_parameters`.
      choices: for "stablehlo", static arguments of the programs, such as {"beam_size": [4, 1]};
        empty for `Task.programs`.
      decoding: for "stablehlo" and "ctranslate2", decoding options that replace the run's, such as
        {"length_penalty": 1.0}.
      dtype: in which the weights are stored (`common_jax.export.weights`).
      split: of the run's data, on which the stored weights are compared with float32 for the card
        (`common_jax.deploy.comparison`); "" for no comparison.
      command, license: for the model card (`model_card`).
      name: by which the card loads it; "" for the folder.

    Raises:
      UserError: if the folder exists or cannot be written, the run has no checkpoint, its predictor
        lacks a choice, the format does not support the model or the dtype, or `split` has no data
        or does not go with format and dtype.
    """
    target = as_path(out).absolute()
    if target.exists():
        raise UserError(f"{out}: already exists; choose another --out")
    task = read_task(workdir)
    _require_comparable(task, format, dtype, split)
    own = vars(task.settings)
    task.decoding = {k: value for k, value in (decoding or {}).items() if own.get(k) != value}
    programs = _programs(workdir, task, format, choices or {})
    parameters = read_parameters(workdir, task, make_mesh(MeshConfig(data=1)), average, ema)
    weights = stored(parameters.values, dtype)
    manifest = Manifest(
        version=VERSION,
        format=format,
        predictor=f"{task.predictor_class.__module__}:{task.predictor_class.__qualname__}",
        settings=vars(task.settings),
        programs={_program_file(static): dict(static) for static in programs},
        source={"step": parameters.step, "average": parameters.average, "ema": parameters.ema},
        versions=versions(),
        dtype=dtype,
    )
    values = parameters.values
    comparison = compare(workdir, task, values, weights, manifest, split) if split else None
    with writing(out):
        target.parent.mkdir(parents=True, exist_ok=True)
        parent = folder_of(target.parent)
        with parent.building(target.name) as folder:
            _write_files(folder, workdir, task, parameters.values, weights, manifest)
            name = name or str(out)
            about = (parameters, weights, manifest, comparison)
            card = model_card(workdir, task, *about, command, name, license)
            (folder / CARD).write_text(card, "utf-8", errors="backslashreplace")
            checksums.seal(folder)
            parent.publish(folder, target.name, last=MANIFEST)
    return manifest


def _require_comparable(task: Task, format: Format, dtype: Dtype, split: str) -> None:
    if dtype not in DTYPES[format]:
        raise UserError(f"--dtype {dtype}: --format {format} has {' | '.join(DTYPES[format])}")
    if split and (dtype == "float32" or format == "ctranslate2"):
        raise UserError(
            f"--evaluate {split}: goes with --dtype bfloat16 or int8, and --format stablehlo or "
            "safetensors"
        )
    if split:
        require_split(task, split)


def _programs(
    workdir: RunFolder, task: Task, format: Format, choices: Mapping[str, Sequence[int]]
) -> Sequence[Mapping[str, int]]:
    if format == "ctranslate2":
        task.require_engine()
    if format != "stablehlo":
        given = [*choices] if format == "ctranslate2" else [*choices, *task.decoding]
        if given:
            raise UserError(f"--{min(given)}: goes with --format stablehlo")
        return []
    supported = {option.name for option in task.predictor_class.options if option.compiled}
    if unknown := set(choices) - supported:
        raise UserError(f"--{min(unknown)}: the predictor of {workdir.path} has no such choice")
    return task.programs(*choices.values())


def _write_files(
    folder: Path,
    workdir: RunFolder,
    task: Task,
    params: Params,
    weights: Params,
    manifest: Manifest,
) -> None:
    """Writes the files of an export except its card: of `params`, float32, and stored `weights`."""
    write_json(folder / MANIFEST, shareable(vars(manifest)))
    write_json(folder / CONFIG, shareable(read_json(workdir.config_file).value))
    (folder / VOCABULARY).mkdir()
    task.write_vocabulary(folder / VOCABULARY)
    if manifest.format == "orbax":
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as saver:
            saver.save((folder / ORBAX).absolute(), params)
        for file in (folder / ORBAX).rglob(COMMITTED):
            file.write_text("")  # it named this folder, and need only exist
        return
    if manifest.format == "ctranslate2":
        task.write_engine(params, folder / ENGINE, manifest.dtype)
        return
    write_safetensors(weights, folder / PARAMETERS)
    if manifest.format == "stablehlo":
        from common_jax.export.stablehlo import serialized

        (folder / PROGRAMS).mkdir()
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), weights)
        for file, static in manifest.programs.items():
            serve = functools.partial(task.serve, **static)
            (folder / PROGRAMS / file).write_bytes(serialized(serve, shapes, task.inputs))


def _program_file(static: Mapping[str, int]) -> str:
    stem = "-".join(f"{name}-{value}" for name, value in static.items())
    return f"{stem or 'program'}.stablehlo"
