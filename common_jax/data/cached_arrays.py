"""Arrays that take a second to find and are kept beside the corpus they are a function of."""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

# Another number when `choose_shapes` or `pack` would find something else: what older code kept is
# not read then.
_FORMAT = 1


def cached_arrays(
    folder: Path, name: str, compute: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays that `compute` gives, read from `folder` if they were kept there.

    A file that cannot be read is computed anew, and one that cannot be written is done without.

    Args:
      folder: made if it is not there; its content must be a function of what `compute` reads.
      name: what is computed, with all its parameters.
      compute: gives arrays by their names.
    """
    path = folder / f"{name}-{_FORMAT}.npz"
    try:
        with np.load(path) as file:
            return dict(file)
    except Exception:  # of many kinds, for a damaged archive
        arrays = dict(compute())
    with contextlib.suppress(OSError):
        _write(path, arrays)
    return arrays


def _write(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes the file so that it is whole if it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, **arrays)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
