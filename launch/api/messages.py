"""Messages of a call from Python, where no command has configured the process's log."""

import contextlib
import logging
from collections.abc import Iterator

from launch.cli import LIBRARY_LEVELS, ROOT

_PACKAGES = ("common_jax", "launch", *(path.parent.name for path in ROOT.glob("*_jax/task.py")))


@contextlib.contextmanager
def messages() -> Iterator[None]:
    """Shows this project's messages, and libraries' from their `LIBRARY_LEVELS` on, on standard
    error. Changes nothing if a command has configured logging; `logging.disable(logging.INFO)`
    hides all but warnings and errors."""
    if logging.getLogger(__name__).isEnabledFor(logging.INFO):
        yield
        return

    # The levels before, to restore them.
    project, libraries = (
        [logging.getLogger(n) for n in names] for names in (_PACKAGES, LIBRARY_LEVELS)
    )
    states = [(logger, logger.level, logger.propagate) for logger in (*project, *libraries)]
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))

    # Messages of this project, and libraries' from their levels on.
    try:
        for logger in project:
            logger.setLevel(logging.INFO)
            logger.propagate = False  # not to handlers that libraries add, such as absl's
            logger.addHandler(handler)
        for logger in libraries:
            logger.setLevel(LIBRARY_LEVELS[logger.name])
        yield
    finally:
        for logger, level, propagates in states:
            logger.setLevel(level)
            logger.propagate = propagates
            logger.removeHandler(handler)
