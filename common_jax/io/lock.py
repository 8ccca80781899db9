"""Locks between processes, on a file that names the holder."""

import os
import socket
from pathlib import Path
from typing import Any

_held: dict[str, Any] = {}  # by this process, by file; released when it ends


def acquire(file: Path, *, keep: bool = True) -> str:
    """Locks a file, unless another process holds it.

    A process may acquire its own lock again, as when it resumes a run in a notebook.

    Args:
      keep: False for releasing it at once.

    Returns: the other process that holds it; "" if there is none.
    """
    from filelock import FileLock, Timeout

    key = os.path.realpath(file)
    if key in _held:
        return ""
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


def release(file: Path) -> None:
    """Lets other processes acquire the lock."""
    if lock := _held.pop(os.path.realpath(file), None):
        lock.release()
