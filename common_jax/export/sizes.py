"""Checks of the sizes that an export declares, before memory is allocated for them."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from safetensors import SafetensorError, safe_open

from common_jax.errors import UserError
from common_jax.export.format import CONFIG, ORBAX, PARAMETERS, PROGRAMS, VOCABULARY, Export
from common_jax.fields import require
from common_jax.io.checksums import files_in
from common_jax.io.json_files import read_json

_SECTIONS = ("model", "words")  # of a config, whose numbers are sizes of parameters
_SMALL = 2**20  # a size that needs no check


def require_memory(export: Export, memory: int) -> None:
    """Raises UserError if parameters, programs and vocabulary have more than `memory` bytes."""
    size = _bytes(export, PARAMETERS, PROGRAMS, VOCABULARY)
    require(
        size <= memory,
        f"{export.path}: has {size / 2**30:.1f} GiB, more than the {memory / 2**30:g} GiB of "
        "memory that its process may use",
    )


def require_rows(export: Export, ids: Mapping[str, int]) -> None:
    """Raises UserError if a table of the parameters has no row for an id of the vocabulary.

    Args:
      ids: the number of ids, by the name of the table (`Predictor.tables`).
    """
    file = export.path / PARAMETERS
    try:
        with safe_open(file, "numpy") as arrays:
            shapes = {name: arrays.get_slice(name).get_shape() for name in arrays.keys()}  # noqa: SIM118
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise UserError(f"{file}: not a complete safetensors file ({error})") from error
    for name, shape in shapes.items():
        count = ids.get(name.rpartition("/")[2], 0)
        if shape and count > shape[0]:
            raise UserError(
                f"{export.path / VOCABULARY}: has {count:,} ids, but {name} has {shape[0]:,} rows"
            )


def require_config(export: Export) -> None:
    """Raises UserError for a size in the config larger than the parameters' files."""
    file = export.path / CONFIG
    config = read_json(file).get("config", dict)
    most = max(_SMALL, _bytes(export, PARAMETERS, ORBAX))
    for name, size in _sizes({name: config.get(name) for name in _SECTIONS}):
        require(size <= most, f"{file}: {name}={size}: more than the export's parameters have")


def _sizes(values: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _sizes(value, f"{under}{name}.")
        elif type(value) is int:
            yield f"{under}{name}", value


def _bytes(export: Export, *names: str) -> int:
    paths = (path for name in names for path in (export.path / name, *files_in(export.path / name)))
    return sum(os.path.getsize(path) for path in paths if path.is_file())
