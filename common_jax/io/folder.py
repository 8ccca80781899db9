"""Folders on disks and in buckets: their common interface `Folder`, and the class for disks.

`common_jax.io.storage.folder_of` has the folder of a path. The class for buckets is in
`common_jax.io.bucket_folder`.
"""

import abc
import contextlib
import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

from common_jax.io import lock
from common_jax.io.paths import AnyPath

PARTIAL = ".partial"  # end of the names of what is being written
COMMITTED = "commit_success.txt"  # which Orbax writes last where nothing can be renamed
_ORBAX_TEMPORARY = ".orbax-checkpoint-tmp"  # in the names of steps that Orbax is writing on a disk

_locks: dict[str, contextlib.ExitStack] = {}  # of this process, by file; released when it ends


class Appended(Protocol):
    """A file that is appended to.

    Attributes:
      name: of a file on this machine with its content.
    """

    name: Any

    def write(self, content: bytes, /) -> int:
        """Appends bytes; returns the number of those that were."""

    def flush(self) -> None:
        """Writes all that was appended."""

    def close(self) -> None:
        """Writes all that was appended, and closes the file; may be called again."""

    def fileno(self) -> int:
        """The descriptor, to which a process may write."""


class Mirror:
    """A folder on a disk, for a library that writes files itself, of which another has a copy.

    Attributes:
      folder: the folder on the disk.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def fetch(self) -> None:
        """Copies the other folder's files to the disk."""

    def flush(self) -> None:
        """Copies the files that have changed to the other folder."""

    def close(self) -> None:
        """Copies the files, and deletes the disk's if they are temporary."""


class Folder(abc.ABC):
    """A folder, which need not exist. Names are those of files and folders in it.

    Methods raise an OSError on a disk, and a UserError in a bucket.

    Attributes:
      path: the path.
      look_seconds: between two looks at a file that grows.
    """

    look_seconds: ClassVar[float]

    def __init__(self, path: AnyPath):
        self.path = path

    @abc.abstractmethod
    def append(self, name: str) -> Appended:
        """Opens a file to append to it."""

    @abc.abstractmethod
    def replace(self, name: str, content: bytes) -> None:
        """Replaces a file atomically; on an error, such as a full disk, the old file remains.

        Of several processes that replace it at once, the last one's content remains.
        """

    @abc.abstractmethod
    def publish(self, source: AnyPath, name: str, last: str = "") -> None:
        """Copies a finished folder, or moves it where it can be renamed, to a name not yet there.

        Args:
          source: on a disk, or in the same storage.
          last: the file that marks it as complete.
        """

    @abc.abstractmethod
    def remove(self, name: str) -> None:
        """Deletes a folder, if it exists; on a disk as far as possible."""

    @abc.abstractmethod
    def complete(self) -> list[str]:
        """The names of what has been written completely; of folders that Orbax writes."""

    @abc.abstractmethod
    def is_complete(self, name: str, last: str) -> bool:
        """Whether a folder has been published with this `last`."""

    def unfinished(self) -> list[str]:
        """The names of what is not `complete`."""
        complete = {*self.complete()}
        return [path.name for path in self.path.glob("*") if path.name not in complete]

    @abc.abstractmethod
    def being_written(self, name: str) -> list[AnyPath]:
        """The folders in which Orbax is writing one that will have this name."""

    def lock(self, name: str, *, keep: bool = True) -> str:
        """Locks the folder by a file, unless another process holds it.

        A process may lock it again, as when it resumes a run in a notebook. The lock ends with
        `unlock` or the process.

        Args:
          keep: False releases it at once.

        Returns: the other process that holds it; "" if there is none.
        """
        key = self._key(name)
        if key in _locks:
            return ""
        with contextlib.ExitStack() as locks:
            if holder := self._lock(name, locks, keep):
                return holder
            if keep:
                _locks[key] = locks.pop_all()
        return ""

    def unlock(self, name: str) -> None:
        """Lets other processes lock it."""
        if locks := _locks.pop(self._key(name), None):
            locks.close()

    def _key(self, name: str) -> str:
        return str((self.path / name).resolve())

    @abc.abstractmethod
    def _lock(self, name: str, locks: contextlib.ExitStack, keep: bool) -> str:
        """Locks a file and adds the release to `locks`, or returns the other holder."""

    @contextlib.contextmanager
    def building(self, name: str) -> Iterator[Path]:
        """A new folder on a disk to fill and `publish`, which is deleted if it was not."""
        with tempfile.TemporaryDirectory(
            prefix=f".{name}.", suffix=PARTIAL, dir=self._scratch
        ) as temporary:
            folder = Path(temporary) / name
            folder.mkdir()
            yield folder

    @property
    @abc.abstractmethod
    def _scratch(self) -> Path | None:
        """A folder from which `publish` need not copy; None for that of temporary files."""

    @abc.abstractmethod
    def mirror(self) -> Mirror:
        """The folder for a library that writes files itself."""

    @property
    @abc.abstractmethod
    def local(self) -> "DiskFolder":
        """The folder of this machine in which programs open what is in this one."""

    @abc.abstractmethod
    def fetch(self, name: str, target: Path) -> None:
        """Copies a folder to one on a disk."""

    @abc.abstractmethod
    def fill(self, first: Callable[[], Any], every: Callable[[], Any]) -> None:
        """Has all processes of a run fill the folder, which may not be on a common disk.

        Args:
          first: lets the first process do it, while the others wait.
          every: lets every process do it, or find it done.
        """

    @abc.abstractmethod
    def obstacle(self, name: str) -> str:
        """Why no file of this name can be written; "" if that is not known before."""

    @abc.abstractmethod
    def walk(self, leaf: str) -> Iterator[tuple[AnyPath, set[str]]]:
        """The folders with files at and below this one, each with their names; on a disk without
        hidden folders, those below one that has a file `leaf`, and links to one that was there."""

    @abc.abstractmethod
    def modified(self, name: str) -> float | None:
        """When a file or folder was changed, in seconds since 1970, 0 if it is missing; None if the
        storage does not tell."""


class DiskFolder(Folder):
    """A folder on a disk: what is complete has been renamed."""

    look_seconds = 3.0

    def append(self, name: str) -> Appended:
        """Opens a file, unbuffered: each write reaches the system, and fails at once if the disk is
        full, perhaps after a part."""
        return cast(Appended, (self.path / name).open("ab", buffering=0))

    def replace(self, name: str, content: bytes) -> None:
        partial = self.path / f"{name}.{secrets.token_hex(4)}{PARTIAL}"
        try:
            partial.write_bytes(content)
            os.replace(partial, self.path / name)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise

    def publish(self, source: AnyPath, name: str, last: str = "") -> None:
        target = self.path / name
        try:
            os.rename(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.copytree(source, target)  # from another disk, as through a link

    def remove(self, name: str) -> None:
        shutil.rmtree(self.path / name, ignore_errors=True)

    def complete(self) -> list[str]:
        names = [path.name for path in self.path.glob("*")]
        return [name for name in names if _ORBAX_TEMPORARY not in name]

    def is_complete(self, name: str, last: str) -> bool:
        return (self.path / name).is_dir()

    def being_written(self, name: str) -> list[AnyPath]:
        return [*self.path.glob(f"{name}{_ORBAX_TEMPORARY}*")]

    def _lock(self, name: str, locks: contextlib.ExitStack, keep: bool) -> str:
        file = cast(Path, self.path / name)
        holder = lock.lock_file(file, locks)
        if keep and not holder:
            file.write_text(lock.this_process())
        return holder

    @property
    def _scratch(self) -> Path:
        return cast(Path, self.path)

    def mirror(self) -> Mirror:
        return Mirror(cast(Path, self.path))

    @property
    def local(self) -> "DiskFolder":
        return self

    def fetch(self, name: str, target: Path) -> None:
        shutil.copytree(self.path / name, target, dirs_exist_ok=True)

    def fill(self, first: Callable[[], Any], every: Callable[[], Any]) -> None:
        """Each process fills its own disk; on a common one, a lock orders them."""
        every()

    def obstacle(self, name: str) -> str:
        file = self.path / name
        if os.path.isdir(file):
            return f"{file} is a folder; name a file"
        if not os.path.isdir(self.path):
            return f"there is no folder {self.path.absolute()}"
        return ""

    def walk(self, leaf: str) -> Iterator[tuple[AnyPath, set[str]]]:
        seen = {*Path(os.path.realpath(self.path)).parents}
        for folder, names, files in os.walk(self.path, followlinks=True):
            # A link may lead back.
            real = Path(os.path.realpath(folder))
            if real in seen:
                names.clear()
                continue
            seen.add(real)

            # Go on below.
            if files:
                yield Path(folder), {*files}
            if leaf in files:
                names.clear()
            names[:] = sorted(name for name in names if not name.startswith((".", "__")))

    def modified(self, name: str) -> float | None:
        with contextlib.suppress(FileNotFoundError):
            return (self.path / name).stat().st_mtime
        return 0.0
