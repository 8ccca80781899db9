"""Folders in a bucket: what is complete has a file that was written last."""

import contextlib
import hashlib
import io
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from common_jax.io.folder import COMMITTED, Folder, Mirror
from common_jax.io.lease import Lease, Version
from common_jax.io.paths import CACHE, AnyPath, cache_of, expand_user

_UPLOAD_SECONDS = 10  # between two writes of an object that grows
_CONCURRENT = 8  # files that are copied


class BucketFolder(Folder):
    """A folder in a bucket, where nothing is renamed, and each file is written as a whole."""

    look_seconds = 30.0  # as each reads the whole file
    _scratch = None

    def append(self, name: str) -> io.FileIO:
        return _AppendedObject(self.path / name)

    def replace(self, name: str, content: bytes) -> None:
        (self.path / name).write_bytes(content)

    def publish(self, source: AnyPath, name: str, last: str = "") -> None:
        paths = [path for path in source.rglob("*") if path.is_file()]
        files = {path.relative_to(source).as_posix(): path for path in paths}
        final = files.pop(last, None)
        _copy_all(files, self.path / name)
        if final is not None:
            _copy(final, self.path / name / last)

    def remove(self, name: str) -> None:
        cast(Any, self.path / name).rmtree(missing_ok=True)

    def remove_partial(self) -> None:
        """Deletes nothing: an object is there whole, or not at all."""

    def complete(self, last: str = COMMITTED) -> list[str]:
        return [file.parent.name for file in self.path.glob(f"*/{last}")]

    def _lock(self, name: str, locks: contextlib.ExitStack, keep: bool) -> str:
        lease = Lease(self.path, ObjectRecord(self.path / name))
        holder = lease.acquire()
        if not holder:
            locks.callback(lease.release)
        return holder

    def mirror(self) -> Mirror:
        return _UploadedMirror(self.path)

    @property
    def local(self) -> Folder:
        return Folder(Path(expand_user(CACHE)))

    def fetch(self, name: str, target: Path) -> None:
        _download(self.path / name, target)

    def fill(self, first: Callable[[], Any], every: Callable[[], Any]) -> None:
        first()
        every()

    def obstacle(self, name: str) -> str:
        return ""

    def walk(self, leaf: str) -> Iterator[tuple[AnyPath, set[str]]]:
        folders: dict[AnyPath, set[str]] = {}
        for file in self.path.rglob("*"):
            folders.setdefault(file.parent, set()).add(file.name)
        yield from sorted(folders.items())

    def modified(self, name: str) -> float | None:
        return None


class ObjectRecord:
    """An object as a `common_jax.io.lease.Record`; deleted when it is free."""

    def __init__(self, path: AnyPath):
        self._key = cast(Any, path).key

    def read(self) -> Version:
        result = self._key.read()
        content = result.value if result.state == "value" else b""
        return Version(content, result.stamp.generation)

    def write(self, content: bytes, generation: bytes) -> bytes:
        return self._key.write_unguarded(content or None, generation)


class _AppendedObject(io.FileIO):
    """A file in the cache; the object is replaced by it when it is flushed or closed, and while it
    grows, after `_UPLOAD_SECONDS`."""

    def __init__(self, path: AnyPath):
        self._path = path
        self._local = cache_of(path) / path.name
        self._local.write_bytes(path.read_bytes() if path.exists() else b"")
        self._uploaded = self._local.stat().st_size
        self._uploaded_at = time.monotonic()
        super().__init__(str(self._local), "ab")

    def write(self, content: Any) -> int:
        count = super().write(content)
        if time.monotonic() - self._uploaded_at > _UPLOAD_SECONDS:
            self.flush()
        return count

    def flush(self) -> None:  # which `close` calls
        content = self._local.read_bytes()
        if len(content) > self._uploaded:
            self._path.write_bytes(content)
            self._uploaded = len(content)
            self._uploaded_at = time.monotonic()


class _UploadedMirror(Mirror):
    """A temporary folder, whose files are uploaded."""

    def __init__(self, target: AnyPath):
        super().__init__(Path(tempfile.mkdtemp()))
        self._target = target
        self._uploaded = dict[str, bytes]()  # the digest of each file's content

    def fetch(self) -> None:
        _download(self._target, self.folder)

    def flush(self) -> None:
        for path in self.folder.rglob("*"):
            if path.is_file():
                self._upload(path, path.relative_to(self.folder).as_posix())

    def _upload(self, path: Path, name: str) -> None:
        content = path.read_bytes()
        digest = hashlib.sha256(content).digest()
        if digest != self._uploaded.get(name):
            (self._target / name).write_bytes(content)
            self._uploaded[name] = digest

    def close(self) -> None:
        try:
            self.flush()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


def _download(source: AnyPath, folder: Path) -> None:
    _copy_all({path.relative_to(source).as_posix(): path for path in source.rglob("*")}, folder)


def _copy_all(files: dict[str, AnyPath], target: AnyPath) -> None:
    """Copies files to their names in a folder."""
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        [*pool.map(lambda name: _copy(files[name], target / name), files)]


def _copy(source: AnyPath, target: AnyPath) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
