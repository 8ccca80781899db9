"""Training in a child process, whose end the parent reports in one line.

When a process dies or cannot be reached, `jax.distributed` aborts the others in C++, with pages of
output. Hence each process trains in a child; the parent forwards requests to stop, and reports in
one line how the child ended.

JAX 0.10.2 has no alternative: with `jax_enable_recoverability` a process can wait forever in a
collective operation, and still aborts with the first process; the `missed_heartbeat_callback` of
the client cannot be set by `jax.distributed.initialize`, and aborts too (std::bad_cast).
"""

import ctypes
import os
import signal
import sys
from typing import NoReturn

from common_jax.io.terminal import hangup, leave_terminal
from launch.exits import flush

LOST = 75  # exit status when another process died: EX_TEMPFAIL of sysexits.h

_PR_SET_PDEATHSIG = 1  # Linux's prctl.h


def continue_in_child() -> None:
    """Returns in a child of this process, before any library has threads; the parent waits, and
    exits with the child's status."""
    parent = os.getpid()
    child = os.fork()
    if child:
        _wait(child)

    # the terminal sends these to both, and the parent forwards them
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in hangup():
        signal.signal(number, lambda number, frame: leave_terminal())

    # end with the parent
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(LOST)


def _wait(child: int) -> NoReturn:
    """Forwards requests to stop, or to trace steps, to a child, and exits with its status."""
    signals: list[int] = []

    def forward(number: int, frame: object) -> None:
        signals.append(number)
        leave_terminal()
        os.kill(child, signal.SIGTERM)  # which JAX handles

    for number in (signal.SIGTERM, signal.SIGINT, *hangup()):
        signal.signal(number, forward)
    signal.signal(signal.SIGUSR1, lambda number, frame: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    _exit_like_child(os.waitstatus_to_exitcode(status), signals)


def _exit_like_child(status: int, signals: list[int]) -> NoReturn:
    """Exits with the child's status, and reports a signal that ended it.

    Args:
      status: of the child; negative is a signal's number.
      signals: that were forwarded to it.
    """
    if status == -signal.SIGABRT:
        print(
            "error: JAX has ended this process (its messages above), most likely because another "
            "process of the run has died or cannot be reached; the same command on all machines "
            "resumes from the last checkpoint",
            file=sys.stderr,
        )
        status = LOST
    elif status == -signal.SIGTERM and signals:
        print(f"{signal.Signals(signals[0]).name}: stopped", file=sys.stderr)
        status = 128 + signals[0]
    # ended by another signal
    elif status < 0:
        reason = " (out of memory?)" if status == -signal.SIGKILL else ""
        print(f"error: ended by {signal.Signals(-status).name}{reason}", file=sys.stderr)
        status = 128 - status
    elif status == 128 + signal.SIGTERM and signals:
        status = 128 + signals[0]
    flush()
    os._exit(status)
