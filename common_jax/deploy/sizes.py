"""Checks of the sizes that an export declares, before memory is allocated for them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from common_jax.errors import UserError
from common_jax.fields import require

_SECTIONS = ("model", "words")  # of a config, whose numbers are sizes of parameters
_SMALL = 2**20  # a size that needs no check


def require_rows(parameters: Path, vocabulary: Path, ids: Mapping[str, int]) -> None:
    """Raises UserError if a table of the parameters has no row for an id of the vocabulary.

    Args:
      parameters: a safetensors file.
      vocabulary: its folder, for the message.
      ids: the number of ids, by the name of the table (`Predictor.tables`).
    """
    try:
        with safe_open(parameters, "numpy") as arrays:
            shapes = {name: arrays.get_slice(name).get_shape() for name in arrays.keys()}  # noqa: SIM118
    except OSError as error:
        raise UserError(f"{parameters}: {error.strerror or error}") from error
    except SafetensorError as error:
        raise UserError(f"{parameters}: not a complete safetensors file ({error})") from error
    for name, shape in shapes.items():
        count = ids.get(name.rpartition("/")[2], 0)
        if shape and count > shape[0]:
            raise UserError(f"{vocabulary}: has {count:,} ids, but {name} has {shape[0]:,} rows")


def require_config(file: Path, config: Mapping[str, Any], parameter_bytes: int) -> None:
    """Raises UserError for a size in a config that is larger than the parameters' files.

    Args:
      file: of the config, for the message.
      config: its values.
    """
    most = max(_SMALL, parameter_bytes)
    for name, size in _sizes({name: config.get(name) for name in _SECTIONS}):
        require(size <= most, f"{file}: {name}={size}: more than the export's parameters have")


def _sizes(values: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, int]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _sizes(value, f"{under}{name}.")
        elif type(value) is int:
            yield f"{under}{name}", value
