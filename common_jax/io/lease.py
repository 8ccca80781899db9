"""A lock in a bucket: an object that is created only if it is absent, and renewed while it is held.

Each renewal gives the object a new generation. A process that sees one generation for
`LEASE_SECONDS` takes the lock over, on the condition that the object still has this generation. No
clocks are compared: a process measures only its own waiting, and the service orders the writes. The
holder renews ten times in a lease; before it writes to the folder it renews at once if its last
renewal is old, as after a suspension, and an object of another generation ends it.
"""

import logging
import os
import secrets
import socket
import threading
import time

from common_jax.errors import UserError
from common_jax.io import bucket
from common_jax.io.bucket import BucketPath

_log = logging.getLogger(__name__)

# The variable is for tests: all commands for a run must have the same.
LEASE_SECONDS = float(os.environ.get("CONV_ATTENTION_LEASE_SECONDS", 60))
_RENEWAL_SECONDS = LEASE_SECONDS / 10
_POLL_SECONDS = min(1.0, _RENEWAL_SECONDS / 2)
# Linux counts a suspended machine's time on this clock alone.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Lease:
    """The lock of this process on the folder of an object."""

    def __init__(self, path: BucketPath):
        self._path, self._key = path, path.key
        name = f"process {os.getpid()} on {socket.gethostname()}"
        self._content = f"{name}\n{secrets.token_hex(8)}\n".encode()
        self._mutex, self._ended = threading.Lock(), threading.Event()
        self._generation, self._renewed = b"", 0.0
        self._thread = threading.Thread(target=self._keep, daemon=True)

    def acquire(self) -> str:
        """Locks the folder; returns the other process that holds it, "" if there is none.

        Waits for the end of the lease of a process that does not renew it.
        """
        found = self._key.read()
        until, logged = _now() + LEASE_SECONDS, False
        while found.state == "value" and _now() < until:
            if not logged and until - _now() < LEASE_SECONDS - 2 * _RENEWAL_SECONDS:
                logged, name = True, holder(found.value)
                _log.info("%s: waiting %.0f s, the lease of %s", self._path, LEASE_SECONDS, name)
            time.sleep(_POLL_SECONDS)
            seen, found = found, self._key.read(unless=found.stamp.generation)
            if found.state == "value":
                return holder(found.value)
            found = found if found.state == "missing" else seen
        if self._write(found.stamp.generation):
            bucket.guards[f"{self._path.parent}/"] = self.require
            self._thread.start()
            return ""
        return holder(self._key.read().value) or "another process"

    def release(self) -> None:
        """Deletes the object if this process still holds it."""
        self._ended.set()
        bucket.guards.pop(f"{self._path.parent}/", None)
        with self._mutex:
            if self._generation:
                self._key.write_unguarded(None, self._generation)

    def require(self) -> None:
        """Renews an old lease.

        Raises:
          UserError: if another process has taken it over.
        """
        with self._mutex:
            if _now() - self._renewed > 3 * _RENEWAL_SECONDS:
                self._renew()
            if not self._generation:
                found = self._key.read()
                raise UserError(
                    f"{self._path.parent}: this process did not renew its lock for "
                    f"{LEASE_SECONDS:.0f} seconds, as when it is suspended, and "
                    f"{holder(found.value) or 'another process'} has taken it over; the same "
                    "command resumes once that has ended"
                )

    def _keep(self) -> None:
        """Renews the lease until it is released or lost."""
        while not self._ended.wait(_RENEWAL_SECONDS):
            with self._mutex:
                if self._ended.is_set() or not self._generation:
                    return
                try:
                    self._renew()
                except UserError:  # of the service: `require` will raise the next one
                    continue

    def _renew(self) -> None:
        if self._generation and not self._write(self._generation):
            self._generation = b""

    def _write(self, generation: bytes) -> bool:
        """Writes the object if it has a generation; returns whether it is this process's now."""
        began = _now()
        written = self._key.write_unguarded(self._content, generation)
        if not written:  # or the answer to a first attempt was lost
            found = self._key.read()
            written = found.stamp.generation if found.value == self._content else b""
        self._generation, self._renewed = written, began if written else self._renewed
        return bool(written)


def holder(content: bytes) -> str:
    """The process in the content of a lock; "" for a missing one."""
    return content.decode(errors="replace").partition("\n")[0].strip()


def _now() -> float:
    return time.clock_gettime(_CLOCK)
