"""The exit of a process that other processes of its run, or requests to a bucket, wait for."""

import contextlib
import os
import sys
import threading
import time
import traceback
from typing import Any

from common_jax.errors import causes
from common_jax.io import bucket_state

HEARTBEAT_SECONDS = 20  # timeout of the heartbeats of a process
LEAVE_SECONDS = 5.0  # timeout for the others when a process ends with an error


def exit_process(status: int, error: BaseException | None = None, *, at_once: bool = False) -> None:
    """Exits without waiting for the other processes, or for requests to a bucket that is given up;
    returns if there are neither.

    Python's own exit would wait for them at JAX's barrier or for Orbax's threads, for minutes.

    Args:
      error: printed with its traceback.
      at_once: exits also without other processes, and does not wait for threads, which may be
        inside a program without an end.
    """
    jax: Any = sys.modules.get("jax")
    several = jax is not None and jax.distributed.is_initialized()

    # nobody waits: Python's own exit
    if not several and not bucket_state.lost_bucket():
        if at_once:
            flush()
            os._exit(status)
        return

    # if another process has died, JAX ends this one during this time
    if several and any(isinstance(cause, jax.errors.JaxRuntimeError) for cause in causes(error)):
        time.sleep(1.5 * HEARTBEAT_SECONDS)
    if error is not None:
        traceback.print_exception(error)
    flush()

    # leave the others, who may not answer
    if several:
        ending = threading.Thread(target=jax.distributed.shutdown, daemon=True)
        ending.start()
        ending.join(LEAVE_SECONDS)
    os._exit(status)


def flush() -> None:
    """Flushes standard output and error, if they can be."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed or broken pipe
            stream.flush()
