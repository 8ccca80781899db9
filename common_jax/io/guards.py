"""Checks before a write below a folder, such as whether its lock is still held."""

import os
from collections.abc import Callable

_guards: list[tuple[str, Callable[[], None]]] = []


def add(folder: str | os.PathLike[str], check: Callable[[], None]) -> Callable[[], None]:
    """Adds a check, which raises to prevent writes below a folder; returns how to remove it."""
    guard = (f"{_absolute(folder)}/", check)
    _guards.append(guard)
    return lambda: _guards.remove(guard) if guard in _guards else None


def require(path: str | os.PathLike[str]) -> None:
    """Calls the checks of the folders above a path, or of the folder itself."""
    for prefix, check in [*_guards]:
        if f"{_absolute(path)}/".startswith(prefix):
            check()


def _absolute(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return text.rstrip("/") if text.startswith("gs://") else os.path.realpath(text)
