"""Whether a process holds a lock, without acquiring it, which could make that process fail."""

import contextlib
import os
import re
import socket
import time
from typing import Any, cast

from common_jax.errors import UserError
from common_jax.io.changes import ChangingFile
from common_jax.io.lock import LEASE_SECONDS, FolderRecord, Version, holder, lease_folder
from common_jax.io.paths import AnyPath, in_bucket

_HOLDER = re.compile(r"process (\d+) on (\S+)")
_LOCKS = "/proc/locks"  # of Linux: the kind, the process and the file of each lock


class LockState:
    """The state of a lock (`common_jax.io.lock`), as far as it can be seen.

    A lease counts as held until its record has not changed for `LEASE_SECONDS`. A file lock is held
    if its process runs on this machine and, on Linux, the system lists the lock; one of another
    machine cannot be seen.
    """

    def __init__(self, file: AnyPath):
        self._file, self._content, self._name = file, ChangingFile(file), ""
        self._generation, self._since = b"", 0.0

    def look(self) -> tuple[bool | None, str]:
        """Whether the lock is held, None if that cannot be seen; and its present or last holder.

        Raises:
          UserError: by a bucket.
        """
        if in_bucket(self._file):
            from common_jax.io.bucket_folder import ObjectRecord

            return self._leased(ObjectRecord(self._file).read())
        folder = cast(Any, lease_folder(self._file))
        if folder.exists():
            with contextlib.suppress(UserError):  # of a disk that cannot be read just now
                return self._leased(FolderRecord(folder).read())
        changed, content = self._content.read()
        if changed:
            self._name = holder(content or b"")
        if (match := _HOLDER.match(self._name)) is None:
            return False, self._name
        if match[2] != socket.gethostname():
            return None, self._name
        return _process_holds_lock(int(match[1]), self._file), self._name

    def _leased(self, version: Version) -> tuple[bool, str]:
        if version.generation != self._generation:
            self._generation, self._since = version.generation, time.monotonic()
        fresh = time.monotonic() - self._since < LEASE_SECONDS
        return bool(version.content) and fresh, holder(version.content)


def _process_holds_lock(process: int, path: AnyPath) -> bool:
    """Whether a process of this machine runs and, if the system lists locks, locks a file."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        with open(_LOCKS) as file:
            listed = file.read()
        inode = path.stat().st_ino
        return re.search(rf"\bFLOCK\b.* {process} \S+:{inode} ", listed) is not None
    except OSError:
        return True
