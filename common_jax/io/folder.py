"""Folders: `Folder` is one on a disk; `common_jax.io.bucket_folder` has the class for buckets.

`common_jax.io.storage.folder_of` has the folder of a path.
"""

import contextlib
import errno
import io
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

from common_jax.io import lock
from common_jax.io.paths import AnyPath

PARTIAL = ".partial"  # end of the names of what is being written
COMMITTED = "commit_success.txt"  # which Orbax writes last where nothing can be renamed
_ORBAX_TEMPORARY = ".orbax-checkpoint-tmp"  # in the names of steps that Orbax will rename

_locks: dict[str, contextlib.ExitStack] = {}  # of this process, by file; released when it ends


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


class Folder:
    """A folder, which need not exist, on a disk. Names are those of files and folders in it.

    Methods raise an OSError; in a bucket a UserError.

    Attributes:
      path: the path.
      look_seconds: between two looks at a file that grows.
    """

    look_seconds: ClassVar[float] = 3.0

    def __init__(self, path: AnyPath):
        self.path = path

    def append(self, name: str) -> io.FileIO:
        """Opens a file, or one of this machine of which that is a copy.

        Each write reaches the system, and fails at once if the disk is full, perhaps after a part;
        `flush` and `close` write the copy.
        """
        return cast(io.FileIO, (self.path / name).open("ab", buffering=0))

    def replace(self, name: str, content: bytes) -> None:
        """Replaces a file atomically; on an error, such as a full disk, the old file remains.

        Of several processes that replace it at once, the last one's content remains.
        """
        partial = self.path / f"{name}.{secrets.token_hex(4)}{PARTIAL}"
        try:
            partial.write_bytes(content)
            os.replace(partial, self.path / name)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise

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
    def _scratch(self) -> AnyPath | None:
        """A folder from which `publish` need not copy; None for that of temporary files."""
        return self.path

    def publish(self, source: AnyPath, name: str, last: str = "") -> None:
        """Moves a finished folder to a name that is not there yet, or copies it where nothing can
        be renamed.

        Args:
          last: the file that marks a copy as complete.
        """
        target = self.path / name
        try:
            os.replace(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.copytree(source, target)  # from another disk, as through a link

    def remove(self, name: str) -> None:
        """Deletes a folder, if it exists; on a disk as far as possible."""
        shutil.rmtree(self.path / name, ignore_errors=True)

    def remove_partial(self) -> None:
        """Deletes what killed processes were writing; for who has locked the folder."""
        for partial in [*self.path.glob(f"*{PARTIAL}"), *self.path.glob(f"*/*{PARTIAL}")]:
            shutil.rmtree(partial, ignore_errors=True)  # leaves a file
            partial.unlink(missing_ok=True)

    def complete(self, last: str = COMMITTED) -> list[str]:
        """The names of the folders that Orbax has written, or that were published with `last`."""
        names = [path.name for path in self.path.glob("*")]
        return [name for name in names if _ORBAX_TEMPORARY not in name]

    def unfinished(self) -> list[str]:
        """The names of what Orbax is writing, or was when it was killed."""
        complete = {*self.complete()}
        return [path.name for path in self.path.glob("*") if path.name not in complete]

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

    def _lock(self, name: str, locks: contextlib.ExitStack, keep: bool) -> str:
        """Locks a file and adds the release to `locks`, or returns the other holder."""
        file = cast(Path, self.path / name)
        holder = lock.lock_file(file, locks)
        if keep and not holder:
            file.write_text(lock.this_process())
        return holder

    def mirror(self) -> Mirror:
        """The folder for a library that writes files itself."""
        return Mirror(cast(Path, self.path))

    @property
    def local(self) -> "Folder":
        """The folder of this machine in which programs open what is in this one."""
        return self

    def fetch(self, name: str, target: Path) -> None:
        """Copies a folder to one on a disk."""
        shutil.copytree(self.path / name, target, dirs_exist_ok=True)

    def fill(self, first: Callable[[], Any], every: Callable[[], Any]) -> None:
        """Has all processes of a run fill the folder.

        On a disk each one does it: a lock orders those of a common disk. In a bucket the first one
        does it, and every other one then fetches what is there.

        Args:
          first: lets the first process do it, while the others wait.
          every: lets every process do it, or find it done.
        """
        every()

    def obstacle(self, name: str) -> str:
        """Why no file of this name can be written; "" if that is not known before."""
        file = self.path / name
        if os.path.isdir(file):
            return f"{file} is a folder; name a file"
        if not os.path.isdir(self.path):
            return f"there is no folder {self.path.absolute()}"
        return ""

    def walk(self, leaf: str) -> Iterator[tuple[AnyPath, set[str]]]:
        """The folders with files at and below this one, each with their names; on a disk without
        hidden folders, those below one that has a file `leaf`, and links to one that was there."""
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
        """When a file or folder was changed, in seconds since 1970, 0 if it is missing; None if the
        storage does not tell."""
        with contextlib.suppress(FileNotFoundError):
            return (self.path / name).stat().st_mtime
        return 0.0
