"""Exports the model of a run: writes the folder that `common_jax.deploy.format` reads."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from common_jax.config import MeshConfig
from common_jax.deploy.format import (
    CARD,
    CONFIG,
    ENGINE,
    EXAMPLES,
    FORMATS,
    MANIFEST,
    PARAMETERS,
    PROGRAMS,
    VERSION,
    VOCABULARY,
    Manifest,
)
from common_jax.deploy.loading import model_format
from common_jax.deploy.model_format import ModelFormat
from common_jax.deploy.parameters import Parameters, read_parameters
from common_jax.deploy.safetensors_file import write_safetensors
from common_jax.deploy.service import Service, service_of
from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.io import checksums
from common_jax.io.atomic import write_json, writing
from common_jax.io.json_files import read_json
from common_jax.io.paths import as_path
from common_jax.io.storage import folder_of
from common_jax.training.config import make_task, read_task
from common_jax.training.mesh import make_mesh
from common_jax.training.scored_run import ScoredRun
from common_jax.versions import versions
from launch.export.card import model_card
from launch.export.request import ExportRequest, shareable


def export(request: ExportRequest) -> Manifest:
    """Writes the export of a run to a new folder, atomically.

    Raises:
      UserError: if the folder exists or cannot be written, the run has no checkpoint, its predictor
        lacks a choice, or the format does not support the model or the dtype.
    """
    out = request.out
    target = as_path(out).absolute()
    if target.exists():
        raise UserError(f"{out}: already exists; choose another --out")

    # the model: the run's, with other options of decoding
    task = read_task(request.workdir)
    service = service_of(task)
    settings = vars(service.settings)
    task.decoding = {k: value for k, value in request.decoding.items() if settings.get(k) != value}
    library = _library(request, service)
    programs = _programs(request, service, library)
    mesh = make_mesh(MeshConfig(data=1))
    parameters = read_parameters(request.workdir, task, mesh, request.average, request.ema)

    predictor = service.predictor_class
    manifest = Manifest(
        version=VERSION,
        format=request.format,
        predictor=f"{predictor.__module__}:{predictor.__qualname__}",
        settings=vars(service.settings),
        programs={_program_file(static): dict(static) for static in programs},
        source={"step": parameters.step, "average": parameters.average, "ema": parameters.ema},
        versions=versions(),
        dtype=_dtype(request, library),
    )
    with writing(out):
        target.parent.mkdir(parents=True, exist_ok=True)
        parent = folder_of(target.parent)
        with parent.building(target.name) as folder:
            _write_files(folder, request, service, parameters, manifest, library)
            checksums.seal(folder)
            parent.publish(folder, target.name, last=MANIFEST)
    return manifest


def dev_examples(workdir: ScoredRun, count: int) -> Sequence[str]:
    """The first lines of a run's dev split, from its corpus.

    Raises:
      UserError: if the corpus cannot be prepared, is not that of training, or has no lines.
    """
    task = make_task(workdir)
    split = task.splits[0]
    task.prepare()
    workdir.require_data(task, [split])
    lines = task.example_lines(split, count)
    require(bool(lines), f"--examples: {type(task).__name__} has no lines")
    return lines


def _library(request: ExportRequest, service: Service) -> ModelFormat | None:
    """The format of the predictor's own; None for one of `FORMATS`.

    Raises:
      UserError: if there is no such format, or it does not support the model.
    """
    if request.format in FORMATS:
        return None
    formats = service.predictor_class.formats
    if request.format not in formats:
        names = " | ".join([*FORMATS, *formats])
        raise UserError(f"--format {request.format}: this model has {names}")
    library = model_format(request.format, service.predictor_class)
    library.require(service)
    return library


def _dtype(request: ExportRequest, library: ModelFormat | None) -> Any:
    """The dtype of the stored weights; raises UserError if the format does not have it."""
    supported = ("float32",) if library is None else library.dtypes
    dtype = request.dtype or supported[0]
    if dtype not in supported:
        raise UserError(f"--dtype {dtype}: --format {request.format} has {' | '.join(supported)}")
    return dtype


def _programs(
    request: ExportRequest, service: Service, library: ModelFormat | None
) -> Sequence[Mapping[str, int]]:
    """The static arguments of the programs to write.

    Raises:
      UserError: for a choice or an option of decoding that the format or the predictor lacks.
    """
    if request.format != "stablehlo":
        decoding = [*service.task.decoding] if library is None else []
        given = [*request.choices, *decoding]
        if given:
            raise UserError(f"--{min(given)}: goes with --format stablehlo")
        return []
    supported = {option.name for option in service.predictor_class.options if option.compiled}
    if unknown := set(request.choices) - supported:
        raise UserError(
            f"--{min(unknown)}: the predictor of {request.workdir.path} has no such choice"
        )
    return service.programs(*request.choices.values())


def _write_files(
    folder: Path,
    request: ExportRequest,
    service: Service,
    parameters: Parameters,
    manifest: Manifest,
    library: ModelFormat | None,
) -> None:
    """Writes the files of an export."""
    values = parameters.values
    write_json(folder / MANIFEST, shareable(vars(manifest)))
    write_json(folder / CONFIG, shareable(read_json(request.workdir.config_file).value))
    (folder / VOCABULARY).mkdir()
    service.task.write_vocabulary(folder / VOCABULARY)

    # the model
    if library is not None:
        library.write(service, values, folder / ENGINE, manifest.dtype)
    else:
        write_safetensors(values, folder / PARAMETERS)
    if manifest.format == "stablehlo":
        from common_jax.deploy.stablehlo import serialized

        (folder / PROGRAMS).mkdir()
        shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), values)
        for file, static in manifest.programs.items():
            serve = functools.partial(service.serve, **static)
            (folder / PROGRAMS / file).write_bytes(serialized(serve, shapes, service.inputs))

    if request.examples:
        write_json(folder / EXAMPLES, {"lines": [*request.examples]})
    card = model_card(request, service, parameters, manifest, library)
    (folder / CARD).write_text(card, "utf-8", errors="backslashreplace")


def _program_file(static: Mapping[str, int]) -> str:
    stem = "-".join(f"{name}-{value}" for name, value in static.items())
    return f"{stem or 'program'}.stablehlo"
