"""Locks between processes, on a file that names the holder."""

import os
import socket
from pathlib import Path
from typing import Any

_held: dict[str, Any] = {}  # by this process, by file; released when it ends


def acquire(file: Path) -> str:
    """Locks a file, unless another process holds it; returns that process, "" for this one.

    A process may acquire its own lock again, as when it resumes a run in a notebook.
    """
    key = os.path.realpath(file)
    if key not in _held:
        lock, holder = _try_lock(file)
        if lock is None:
            return holder
        _held[key] = lock
        file.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
    return ""


def release(file: Path) -> None:
    """Lets other processes acquire the lock."""
    lock = _held.pop(os.path.realpath(file), None)
    if lock is not None:
        lock.release()


def other_holder(file: Path) -> str:
    """The other process that holds the lock; "" if there is none."""
    if os.path.realpath(file) in _held or not file.exists():
        return ""
    lock, holder = _try_lock(file)
    if lock is not None:
        lock.release()
    return holder


def _try_lock(file: Path) -> tuple[Any, str]:
    """The acquired lock, or None and its holder."""
    from filelock import FileLock, Timeout

    holder = file.read_text(errors="replace") if file.exists() else ""
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        file.write_text(holder)  # the attempt may have emptied it
        return None, holder.strip() or "another process"
    return lock, ""
