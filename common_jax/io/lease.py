"""Leases: locks in a bucket, or on a disk without file locks.

A lease is a record that its holder renews. Each renewal gives the record a new generation, on the
condition that it still has the last one. A process that sees one generation for `LEASE_SECONDS`
takes the lock over, on the same condition. No clocks are compared: a process measures only its own
waiting, and the service or the disk orders the writes. The holder renews ten times per lease, and
before a write to the folder if its last renewal is old, as after a suspension; it has lost the lock
if the record has another generation.
"""

import contextlib
import errno
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from common_jax.errors import UserError
from common_jax.io import guards
from common_jax.io.lock import lease_folder, this_process
from common_jax.io.paths import AnyPath

_log = logging.getLogger(__name__)

# The variable is for tests: all commands for a run must have the same.
LEASE_SECONDS = float(os.environ.get("CONV_ATTENTION_LEASE_SECONDS", 60))
_RENEWAL_SECONDS = LEASE_SECONDS / 10
_POLL_SECONDS = min(1.0, _RENEWAL_SECONDS / 2)
# Linux counts a suspended machine's time on this clock alone.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_FREE = b"free\n"  # of a record on a disk
_GONE = (errno.ENOENT, errno.ESTALE)  # a network disk has the second

_warned = set[str]()  # the reasons that were logged


def take(file: Path, locks: contextlib.ExitStack, reason: str) -> str:
    """Takes the lease of a file on a disk and adds the release to `locks`, or returns the other
    holder.

    Args:
      reason: why the disk has no locks, which is logged once; "" if it has.
    """
    if reason and reason not in _warned:
        _warned.add(reason)
        _log.warning(
            "%s: this disk has no file locks (%s): a lease replaces them, which is renewed while "
            "the command runs; after a kill, the next command waits %.0f s for its end",
            *(file.parent, reason, LEASE_SECONDS),
        )
    lease = Lease(file.parent, FolderRecord(lease_folder(file)))
    holder = lease.acquire()
    if not holder:
        locks.callback(lease.release)
    return holder


class Version(NamedTuple):
    """A record's content, b"" if the lock is free, and its generation."""

    content: bytes
    generation: bytes


@runtime_checkable
class Record(Protocol):
    """A record with conditional writes."""

    def read(self) -> Version:
        """The current version."""

    def write(self, content: bytes, generation: bytes) -> bytes:
        """Writes the content if the generation matches; returns the new one, or b""."""


class FolderRecord:
    """A folder on a disk, with a file for the generation, whose name is a number.

    A write creates the next file, which network disks too do for only one process, and deletes the
    earlier ones. A process that slept may create a number that was there before: it finds a higher
    one beside it, and has not written the record. Hence numbers never start again, and a free
    record has a file too.

    Methods raise a UserError if the folder cannot be read or written.
    """

    def __init__(self, folder: Path):
        self._folder = folder

    def read(self) -> Version:
        attempts = 0
        while True:
            number = max(self._numbers(), default=0)
            try:
                content = (self._folder / str(number)).read_bytes() if number else _FREE
            except OSError as error:
                if error.errno not in _GONE:
                    raise self._error(error) from error
                time.sleep(_POLL_SECONDS / 10)  # a renewal has just deleted it
                continue

            # A file is empty while it is being written; or its process was killed.
            if not content and attempts < 10:
                attempts += 1
                time.sleep(_POLL_SECONDS / 10)
                continue
            content = b"" if content == _FREE else content or b"another process\n"
            return Version(content, str(number).encode())

    def write(self, content: bytes, generation: bytes) -> bytes:
        # Create the next file.
        number = int(generation) + 1
        file = self._folder / str(number)
        try:
            self._folder.mkdir(exist_ok=True)
            with file.open("xb") as opened:
                try:
                    opened.write(content or _FREE)
                    opened.flush()
                except OSError:
                    self._delete(number)
                    raise
        except FileExistsError:
            return b""
        except OSError as error:
            raise self._error(error) from error

        # Delete the earlier files, or the new one if another process was faster.
        numbers = self._numbers()
        written = max(numbers, default=number) == number
        for earlier in [n for n in numbers if n < number] if written else [number]:
            self._delete(earlier)
        return str(number).encode() if written else b""

    def _numbers(self) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self._folder) if name.isdecimal()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._error(error) from error

    def _delete(self, number: int) -> None:
        with contextlib.suppress(OSError):
            (self._folder / str(number)).unlink()

    def _error(self, error: OSError) -> UserError:
        return UserError(f"{self._folder}: cannot be written: {error.strerror}")


class Lease:
    """The lock of this process on a folder, by a record in it."""

    def __init__(self, folder: AnyPath, record: Record):
        self._folder = folder
        self._record = record
        self._content = f"{this_process()}{secrets.token_hex(8)}\n".encode()
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._generation = b""
        self._renewed = 0.0
        self._remove_guard: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._keep_renewing, daemon=True)

    def acquire(self) -> str:
        """Locks the folder, once the lease of a process that does not renew it has ended; returns
        the other process that holds it, "" if there is none."""
        # Wait until the other process's lease ends; a renewal shows that it still runs.
        current = self._record.read()
        began = _now()
        logged = False
        while current.content and _now() < began + LEASE_SECONDS:
            if not logged and _now() > began + 2 * _RENEWAL_SECONDS:
                logged = True
                name = holder(current.content)
                _log.info("%s: waiting %.0f s, the lease of %s", self._folder, LEASE_SECONDS, name)
            time.sleep(_POLL_SECONDS)
            seen = current
            current = self._record.read()
            if current.content and current.generation != seen.generation:
                return holder(current.content)

        # Write the record, unless a third process has.
        if not self._write(current.generation):
            return holder(self._record.read().content) or "another process"
        self._remove_guard = guards.add(self._folder, self.require)
        self._thread.start()
        return ""

    def release(self) -> None:
        """Frees the record if this process still holds it; if it cannot be written, the lease ends
        by itself."""
        self._ended.set()
        self._remove_guard()
        with self._mutex, contextlib.suppress(UserError):
            if self._generation:
                self._record.write(b"", self._generation)

    def require(self) -> None:
        """Renews an old lease; raises UserError if another process has taken it over."""
        with self._mutex:
            if _now() - self._renewed > 3 * _RENEWAL_SECONDS:
                self._renew()
            if not self._generation:
                current = self._record.read()
                raise UserError(
                    f"{self._folder}: this process did not renew its lock for "
                    f"{LEASE_SECONDS:.0f} seconds, as when it is suspended, and "
                    f"{holder(current.content) or 'another process'} has taken it over; the same "
                    "command resumes once that has ended"
                )

    def _keep_renewing(self) -> None:
        """Renews the lease until it is released or lost."""
        while not self._ended.wait(_RENEWAL_SECONDS):
            with self._mutex:
                if self._ended.is_set() or not self._generation:
                    return
                try:
                    self._renew()
                except UserError:  # of the service or disk: `require` will raise the next one
                    continue

    def _renew(self) -> None:
        if self._generation and not self._write(self._generation):
            self._generation = b""

    def _write(self, generation: bytes) -> bool:
        """Writes the record if it has a generation; returns whether this process now holds it."""
        began = _now()
        written = self._record.write(self._content, generation)
        if not written:  # or the answer to a first attempt was lost
            current = self._record.read()
            written = current.generation if current.content == self._content else b""
        self._generation = written
        if written:
            self._renewed = began
        return bool(written)


def holder(content: bytes) -> str:
    """The process named in a lock's content; "" if there is none."""
    return content.decode(errors="replace").partition("\n")[0].strip()


def _now() -> float:
    return time.clock_gettime(_CLOCK)
