"""Parameters, a nested dict of arrays, by their "a/b/c" names; and as a file of safetensors."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from common_jax.errors import UserError

_DEEPEST = 100  # modules in modules: jax has no stack for thousands


def named_parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by their name, sorted by it."""
    return dict(sorted(_named(params, "")))


def _named(params: Mapping[str, Any], under: str) -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _named(value, f"{under}{name}/")
        else:
            yield f"{under}{name}", value


def nested_parameters(named: Mapping[str, Any]) -> dict[str, Any]:
    """The nested dict again."""
    params: dict[str, Any] = {}
    for name, value in named.items():
        *above, last = name.split("/")
        if len(above) > _DEEPEST:
            raise ValueError(f"a name of {len(above)} parts")
        node = params
        for part in above:
            node = node.setdefault(part, {})
        node[last] = value
    return params


def parameters_sha256(params: Mapping[str, Any], to_host: Callable[[Any], np.ndarray]) -> str:
    """A digest of names, types, shapes and every bit of the parameters.

    Args:
      to_host: gives the whole of one array; called for one after another, so that of those that
        lie on several machines no more than one is gathered.
    """
    digest = hashlib.sha256()
    for name, value in named_parameters(params).items():
        array = to_host(value)
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def require_same(place: str, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises UserError, by its name, for an array that is missing, one too many, or of another
    shape or type; both are parameters, or what has shapes and types, nested or by name."""
    there, want = _described(saved), _described(wanted)
    for name in sorted({*there, *want}):
        found, asked = there.get(name, "missing"), want.get(name, "none")
        if found != asked:
            raise UserError(f"{place}: {name}: {found}, the model wants {asked}")


def _described(params: Mapping[str, Any]) -> dict[str, str]:
    """ "a/b/c" -> "float32 [3, 4]"."""
    named = named_parameters(params)
    return {name: f"{leaf.dtype} {list(leaf.shape)}" for name, leaf in named.items()}


def write_safetensors(params: Mapping[str, Any], file: Path) -> None:
    """Writes nested parameters under their names."""
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
        raise UserError(f"{file}: not a whole safetensors file ({error})") from error
