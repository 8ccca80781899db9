"""Terminals that are closed while a command runs."""

import errno
import os
import signal


def hangup() -> tuple[int, ...]:
    """SIGHUP, which a terminal sends when it is closed, unless it is ignored, as under nohup."""
    return () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)


def leave_terminal() -> None:
    """Redirects stdout and stderr to /dev/null if their terminal is closed, where writes fail."""
    for descriptor in (1, 2):
        try:
            os.ttyname(descriptor)
        except OSError as error:
            if error.errno == errno.EIO:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, descriptor)
                os.close(null)
