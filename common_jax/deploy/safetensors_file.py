"""Parameters as a safetensors file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from common_jax.errors import UserError
from common_jax.io.parameters import named_parameters, nested_parameters


def write_safetensors(params: Mapping[str, Any], file: Path) -> None:
    """Writes nested parameters by their names."""
    file.write_bytes(save({n: np.asarray(a) for n, a in named_parameters(params).items()}))


def read_safetensors(file: Path) -> dict[str, Any]:
    """The nested parameters of a file.

    Raises:
      UserError: if it is missing or broken.
    """
    try:
        return nested_parameters(load_file(file))
    except FileNotFoundError as error:
        raise UserError(f"{file}: missing") from error
    except (OSError, SafetensorError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise UserError(f"{file}: not a complete safetensors file ({error})") from error
