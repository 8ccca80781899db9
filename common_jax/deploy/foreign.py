"""What an export must be before anything of it is used.

One of a stranger is data: its programs never run, this suite's code computes with its parameters,
no class that it names is imported before its package is known, and no array is made of a size that
only its config declares.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from common_jax.errors import UserError
from common_jax.fields import flat, require
from common_jax.renames import current_class

PACKAGES = ("attconv_jax", "common_jax", "csan_jax", "qanet_jax")
_CLASS_FIELDS = ("task", "name")  # of a config, "package.module:Class"
_SECTIONS = ("model", "words")  # of a config, whose numbers are sizes of parameters
_SMALL = 2**20  # a size that needs no check

HEAD_FIELDS = ("license", "language", "datasets", "metrics")  # that a card needs
_HEAD = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
_LONGEST = 2**16  # characters of a card that are read


def require_trusted(file: Path, config: Any, packages: Sequence[str] = ()) -> None:
    """Raises UserError if a config names a class of another package than `PACKAGES`.

    Args:
      file: of the config, for the message.
      config: its values, as JSON has them.
      packages: further packages that are trusted.
    """
    for key, name in flat(config).items():
        if key.rpartition(".")[2] not in _CLASS_FIELDS or ":" not in str(name):
            continue
        package = current_class(str(name)).partition(":")[0].partition(".")[0]
        if package not in (*PACKAGES, *packages):
            raise UserError(
                f"{file}: {key}={name[:80]!r}: of the package {package[:40]!r}, which is not this "
                f"suite's; --trust_package {package[:40]} allows it"
            )


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
    for name, size in flat({name: config.get(name) for name in _SECTIONS}).items():
        fits = type(size) is not int or size <= most
        require(fits, f"{file}: {name}={size}: more than the export's parameters have")


def head(fields: Mapping[str, Any]) -> str:
    """The YAML block at the head of a model card, by which hubs index it, with these fields; values
    are JSON, which is valid YAML."""
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    return "\n".join(("---", *lines, "---"))


def require_head(card: Path) -> None:
    """Raises UserError if a card's head lacks one of `HEAD_FIELDS`."""
    try:
        with card.open(encoding="utf-8", errors="replace") as file:
            match = _HEAD.match(file.read(_LONGEST))
    except OSError as error:
        raise UserError(f"{card}: {error.strerror}") from error
    names = re.findall(r"^([\w-]+):", match[1], re.MULTILINE) if match else []
    if missing := [name for name in HEAD_FIELDS if name not in names]:
        raise UserError(f"{card}: its head has no {missing[0]}; it needs {', '.join(HEAD_FIELDS)}")
