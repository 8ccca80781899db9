"""Progress bars on standard error, shown on terminals alone, and terminals that are closed."""

import errno
import logging
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def is_quiet() -> bool:
    """Whether this process shows no messages below warnings: `logging.disable(logging.INFO)`."""
    return logging.root.manager.disable >= logging.INFO


def progress(items: Iterable[T], description: str, unit: str) -> Iterator[T]:
    """Passes the items on while a bar counts them."""
    from tqdm import tqdm

    bar = tqdm(
        items,
        desc=description,
        unit=f" {unit}",
        leave=False,
        disable=is_quiet() or None,
        file=sys.stderr,
    )
    return iter(bar)


def hangup() -> tuple[int, ...]:
    """SIGHUP, which a terminal sends when it is closed, unless it is ignored, as under nohup."""
    return () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)


def leave_terminal() -> None:
    """Redirects outputs to a terminal that has been closed, where a write would fail, to none."""
    for descriptor in (1, 2):
        try:
            os.ttyname(descriptor)
        except OSError as error:
            if error.errno == errno.EIO:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, descriptor)
                os.close(null)
