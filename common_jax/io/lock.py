"""Locks of files on a disk between processes; on a disk without file locks, leases."""

import contextlib
import errno
import os
import pkgutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from common_jax.io.paths import AnyPath

_FILE_POLL_SECONDS = 0.1
# A disk without locks: NFS without a lock daemon; Lustre without its option; others; Cray's DVS.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, 524)
_TAKE_LEASE = "common_jax.io.lease:take"  # imported only when needed


@contextlib.contextmanager
def held(file: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """A context that holds the lock of a file on a disk.

    Args:
      waiting: called once if another process, or another thread of this one, holds it.
    """
    with contextlib.ExitStack() as locks:
        if lock_file(file, locks):
            waiting()
            while lock_file(file, locks):
                time.sleep(_FILE_POLL_SECONDS)
        yield


def lock_file(file: Path, locks: contextlib.ExitStack) -> str:
    """Locks a file on a disk and adds the release to `locks`, or returns the other holder."""
    from filelock import FileLock, Timeout

    with contextlib.ExitStack() as taken:
        # Lock the file; another holder's name in it remains.
        holder = file.read_text(errors="replace") if file.exists() else ""
        lock = FileLock(file, fallback_to_soft=False)
        missing = ""
        try:
            lock.acquire(blocking=False)
            taken.callback(lock.release)
        except Timeout:
            file.write_text(holder)  # the attempt may have emptied it
            return holder.strip() or "another process"
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            missing = error.strerror or str(error)

        # Without locks, or if a machine that mounts the disk without them has made one: the lease.
        if missing or lease_folder(file).exists():
            take_lease = pkgutil.resolve_name(_TAKE_LEASE)
            if holder := take_lease(file, taken, missing):
                return holder
        locks.push(taken.pop_all())
    return ""


def lease_folder(file: AnyPath) -> AnyPath:
    """The folder of the lease of a file on a disk without locks."""
    return file.with_name(f"{file.name}.lease")


def this_process() -> str:
    """The line that names this process as a holder."""
    return f"process {os.getpid()} on {socket.gethostname()}\n"
