"""Parameters, a nested dict of arrays, by their "a/b/c" names."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from common_jax.errors import UserError

_DEEPEST = 100  # nested modules: thousands would overflow jax's stack


def named_parameters(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by name, sorted."""
    return dict(sorted(_flatten(params, "")))


def _flatten(params: Mapping[str, Any], under: str) -> Iterator[tuple[str, Any]]:
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{under}{name}/")
        else:
            yield f"{under}{name}", value


def nested_parameters(named: Mapping[str, Any]) -> dict[str, Any]:
    """The nested dict; the inverse of `named_parameters`."""
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
      to_host: gathers an array to the host; called for one array after another, so that at most one
        sharded array is gathered at a time.
    """
    digest = hashlib.sha256()
    for name, value in named_parameters(params).items():
        array = to_host(value)
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def require_same(place: str, saved: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises UserError for the first array, by name, that is missing, unexpected, or of another
    shape or type; arrays or shape structs, nested or by name."""
    saved_types = _described(saved)
    expected_types = _described(wanted)
    for name in sorted({*saved_types, *expected_types}):
        actual = saved_types.get(name, "missing")
        expected = expected_types.get(name, "none")
        if actual != expected:
            raise UserError(f"{place}: {name}: {actual}, the model expects {expected}")


def _described(params: Mapping[str, Any]) -> dict[str, str]:
    """ "a/b/c" -> "float32 [3, 4]"."""
    leaves = named_parameters(params)
    return {name: f"{leaf.dtype} {list(leaf.shape)}" for name, leaf in leaves.items()}
