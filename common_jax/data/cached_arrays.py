"""A cache of arrays that are computed from a prepared corpus, in the corpus's folder."""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

# Increment it when `choose_shapes` or `pack` changes its result, to invalidate older caches.
_FORMAT = 1


def cached_arrays(
    folder: Path, name: str, compute: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays of `compute`, cached in `folder`.

    A file that cannot be read is computed again; failure to write it is ignored.

    Args:
      folder: created if necessary; it must belong to the data that `compute` reads.
      name: of the computation, with all its parameters.
    """
    path = folder / f"{name}-{_FORMAT}.npz"
    try:
        with np.load(path) as file:
            return dict(file)
    except Exception:  # a damaged archive raises many kinds
        arrays = dict(compute())
    with contextlib.suppress(OSError):
        _write(path, arrays)
    return arrays


def _write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes the file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, **arrays)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
