"""Messages of a call from Python, where no command has configured the process's log."""

import contextlib
import logging
from collections.abc import Iterator

from launch.cli import LIBRARY_LEVELS

_PACKAGES = ("attconv_jax", "common_jax", "csan_jax", "launch", "qanet_jax")


@contextlib.contextmanager
def messages() -> Iterator[None]:
    """Shows the messages of this project on standard error, and only errors of libraries, until the
    end of the context. Does nothing in a process with handlers of its own, as that of a command has
    them; `logging.disable(logging.INFO)` shows warnings only, and no progress."""
    if logging.getLogger().handlers:
        yield
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    levels = {**LIBRARY_LEVELS, **dict.fromkeys(_PACKAGES, logging.INFO)}
    before = {name: logging.getLogger(name).level for name in levels}
    try:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        for name in _PACKAGES:
            logging.getLogger(name).addHandler(handler)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
        for name in _PACKAGES:
            logging.getLogger(name).removeHandler(handler)
