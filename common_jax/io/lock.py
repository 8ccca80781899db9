"""Locks between processes: file locks, or a lease where there are none."""

import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from common_jax.io.paths import AnyPath, in_bucket

_log = logging.getLogger(__name__)

# A disk without locks: NFS without a lock daemon; Lustre without its option; others; Cray's DVS.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, 524)
_POLL_SECONDS = 0.1

_held: dict[str, contextlib.ExitStack] = {}  # by this process, by file; released when it ends
_warned = set[str]()  # the reasons that were logged


def acquire(file: AnyPath, *, keep: bool = True) -> str:
    """Locks a file, unless another process holds it.

    A process may acquire its own lock again, as when it resumes a run in a notebook.

    Args:
      keep: False releases it at once.

    Returns: the other process that holds it; "" if there is none.
    """
    key = _key(file)
    if key in _held:
        return ""
    with contextlib.ExitStack() as locks:
        if holder := _lock(file, locks):
            return holder
        if keep:
            if not in_bucket(file):
                file.write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
            _held[key] = locks.pop_all()
    return ""


def release(file: AnyPath) -> None:
    """Lets other processes acquire the lock."""
    if locks := _held.pop(_key(file), None):
        locks.close()


@contextlib.contextmanager
def held(file: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """A context that holds the lock of a file on a disk.

    Args:
      waiting: called once if another process, or another thread of this one, holds it.
    """
    with contextlib.ExitStack() as locks:
        if _lock(file, locks):
            waiting()
            while _lock(file, locks):
                time.sleep(_POLL_SECONDS)
        yield


def lease_folder(file: AnyPath) -> AnyPath:
    """The folder of the lease of a file on a disk without locks."""
    return file.with_name(f"{file.name}.lease")


def _lock(file: AnyPath, locks: contextlib.ExitStack) -> str:
    """Locks a file and adds the release to `locks`, or returns the other holder."""
    from filelock import FileLock, Timeout

    from common_jax.io.lease import FolderRecord, Lease, ObjectRecord

    if in_bucket(file):
        lease = Lease(file.parent, ObjectRecord(cast(Any, file).key))
    else:
        holder = file.read_text(errors="replace") if file.exists() else ""
        lock = FileLock(file, fallback_to_soft=False)
        try:
            lock.acquire(blocking=False)
            locks.callback(lock.release)
        except Timeout:
            file.write_text(holder)  # the attempt may have emptied it
            return holder.strip() or "another process"
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _warn(file.parent, error.strerror or str(error))
        else:
            if not lease_folder(file).exists():  # for machines that mount the disk without locks
                return ""
        lease = Lease(file.parent, FolderRecord(cast(Path, lease_folder(file))))
    if not (holder := lease.acquire()):
        locks.callback(lease.release)
    return holder


def _warn(folder: AnyPath, reason: str) -> None:
    """Logs once that a disk has no locks."""
    from common_jax.io.lease import LEASE_SECONDS

    if reason not in _warned:
        _warned.add(reason)
        _log.warning(
            "%s: this disk has no file locks (%s): a lease replaces them, which is renewed while "
            "the command runs; after a kill, the next command waits %.0f s for its end",
            *(folder, reason, LEASE_SECONDS),
        )


def _key(file: AnyPath) -> str:
    return str(file) if in_bucket(file) else os.path.realpath(file)
