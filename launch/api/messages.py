"""Messages of a call from Python, where no command has configured the process's log."""

import contextlib
import logging
from collections.abc import Iterator

from launch.cli import LIBRARY_LEVELS

_PACKAGES = ("attconv_jax", "common_jax", "csan_jax", "launch", "qanet_jax")


@contextlib.contextmanager
def messages() -> Iterator[None]:
    """Shows the messages of this project on standard error, and only errors of libraries, until the
    end of the context. Changes nothing where messages are shown already, as by a command;
    `logging.disable(logging.INFO)` shows warnings only, and no progress."""
    if logging.getLogger(__name__).isEnabledFor(logging.INFO):
        yield
        return
    own, others = ([logging.getLogger(n) for n in names] for names in (_PACKAGES, LIBRARY_LEVELS))
    before = [(logger, logger.level, logger.propagate) for logger in (*own, *others)]
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    try:
        for logger in own:
            logger.setLevel(logging.INFO)
            logger.propagate = False  # to handlers that libraries add, absl's
            logger.addHandler(handler)
        for logger in others:
            logger.setLevel(LIBRARY_LEVELS[logger.name])
        yield
    finally:
        for logger, level, propagates in before:
            logger.setLevel(level)
            logger.propagate = propagates
            logger.removeHandler(handler)
