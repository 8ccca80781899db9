"""Locks between processes, on a file that names the holder, or on an object in a bucket."""

import os
import socket
from typing import Any, cast

from common_jax.io.paths import AnyPath, in_bucket

_held: dict[str, Any] = {}  # by this process, by file; released when it ends


def acquire(file: AnyPath, *, keep: bool = True) -> str:
    """Locks a file, unless another process holds it.

    A process may acquire its own lock again, as when it resumes a run in a notebook.

    Args:
      keep: False for releasing it at once.

    Returns: the other process that holds it; "" if there is none.
    """
    from filelock import FileLock, Timeout

    key = _key(file)
    if key in _held:
        return ""
    if in_bucket(file):
        return _acquire_object(file, keep)
    holder = file.read_text(errors="replace") if file.exists() else ""
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        file.write_text(holder)  # the attempt may have emptied it
        return holder.strip() or "another process"
    if keep:
        _held[key] = lock
        file.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
    else:
        lock.release()
    return ""


def release(file: AnyPath) -> None:
    """Lets other processes acquire the lock."""
    if lock := _held.pop(_key(file), None):
        lock.release()


def _acquire_object(file: AnyPath, keep: bool) -> str:
    from common_jax.io.lease import Lease

    lease = Lease(cast(Any, file))
    if (holder := lease.acquire()) == "":
        _held[_key(file)] = lease
        if not keep:
            release(file)
    return holder


def _key(file: AnyPath) -> str:
    return str(file) if in_bucket(file) else os.path.realpath(file)
