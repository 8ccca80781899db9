"""Local copies of files and folders in a bucket, and folders that are written to one."""

import contextlib
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from common_jax.errors import UserError
from common_jax.io import checksums, lock
from common_jax.io.atomic import PARTIAL, replace_bytes, write_json
from common_jax.io.paths import AnyPath, as_path, expand_user, in_bucket

CACHE = "~/.cache/conv-attention-jax"
_COPIES = "bucket"  # in the cache
_RECORD = ".copied.json"  # generations and checksums of the copies
_CONCURRENT = 8

_log = logging.getLogger(__name__)


def cache_on_disk(cache_dir: str | Path) -> Path:
    """The folder of this machine for a cache, which may be in a bucket."""
    return Path(
        expand_user(CACHE if in_bucket(cache_dir) else as_path(cache_dir), "data.cache_dir")
    )


def cache_of(path: AnyPath) -> Path:
    """The folder of this machine for copies of a path in a bucket."""
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:20]
    folder = Path(expand_user(CACHE)) / _COPIES / digest
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def local_copy(path: str | AnyPath, key: str = "") -> Path:
    """A path on a disk unchanged; for a file or folder in a bucket, a copy in this machine's cache.

    An object is copied again only if its generation, or its copy's checksum, has changed.

    Args:
      key: the config key or flag with the path, for messages.

    Raises:
      UserError: if there is nothing at the path, or the bucket cannot be read.
    """
    if not in_bucket(path):
        return Path(as_path(path))
    source = as_path(path)
    folder = cache_of(source)
    target, record_file = folder / source.name, folder / _RECORD
    with lock.held(folder / ".lock"):
        files = [source] if source.is_file() else checksums.files_in(source)
        if not files:
            raise UserError(f"{key}={path}: nothing there" if key else f"{path}: nothing there")
        record = _read_record(record_file)
        with ThreadPoolExecutor(_CONCURRENT) as pool:
            names = [
                "" if file == source else file.relative_to(source).as_posix() for file in files
            ]
            copied = pool.map(lambda file, name: _copy(file, name, target, record), files, names)
            record = dict(zip(names, copied, strict=True))
        for file in [] if target.is_file() else checksums.files_in(target):
            if file.relative_to(target).as_posix() not in record:
                file.unlink()
        write_json(record_file, record)
    return target


def _copy(source: AnyPath, name: str, target: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Copies an object unless its copy is up to date; returns its generation and checksum."""
    file, known = target / name if name else target, record.get(name, {})
    generation = bytes.fromhex(known.get("generation", ""))
    if generation and not (file.is_file() and checksums.describe(file) == known["content"]):
        generation = b""
    result = cast(Any, source).key.read(unless=generation or None)
    if result.state == "missing":
        raise UserError(f"{source}: deleted while it was read")
    if result.state == "value":
        if len(result.value) >= 2**20:
            _log.info("%s: copied %d MiB", source, len(result.value) >> 20)
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_bytes(file, result.value)
        generation = result.stamp.generation
    return {"generation": generation.hex(), "content": checksums.describe(file)}


def _read_record(file: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(file.read_text("utf-8")))
    return {}


def upload(folder: Path, target: AnyPath, last: str = "") -> None:
    """Copies the files of a folder to one in a bucket.

    Args:
      last: the name of the file that marks the folder as complete.
    """
    files = [path for path in checksums.files_in(folder) if path.name != last]
    copy = lambda file: (target / file.relative_to(folder).as_posix()).write_bytes(
        file.read_bytes()
    )
    with ThreadPoolExecutor(_CONCURRENT) as pool:
        [*pool.map(copy, files)]
    if last:
        (target / last).write_bytes((folder / last).read_bytes())


def download(source: AnyPath, folder: Path) -> None:
    """Copies the files of a folder in a bucket to a new one on a disk."""

    def copy(file: AnyPath) -> None:
        target = folder / file.relative_to(source).as_posix()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())

    with ThreadPoolExecutor(_CONCURRENT) as pool:
        [*pool.map(copy, checksums.files_in(source))]


def publish(folder: Path, target: AnyPath, last: str = "") -> None:
    """Moves a complete folder to `target`, or uploads it there (`upload`)."""
    if in_bucket(target):
        upload(folder, target, last)
    else:
        os.replace(folder, target)


@contextlib.contextmanager
def unfinished(target: AnyPath) -> Iterator[Path]:
    """A folder to fill and `publish`: beside `target`, or temporary for one in a bucket."""
    if in_bucket(target):
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    partial = cast(Path, target.with_suffix(PARTIAL))
    shutil.rmtree(partial, ignore_errors=True)  # of a killed process
    partial.mkdir()
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class Mirror:
    """A folder on a disk for a library that writes files itself, copied to one in a bucket.

    Attributes:
      folder: `target`, or for one in a bucket a temporary folder.
    """

    def __init__(self, target: AnyPath):
        self._target, self._written = target, dict[Path, bytes]()
        self.folder = Path(tempfile.mkdtemp()) if in_bucket(target) else cast(Path, target)

    def fetch(self) -> None:
        """Copies the files that are in the bucket to the disk."""
        if self.folder != self._target:
            download(self._target, self.folder)

    def flush(self) -> None:
        """Copies the files that have changed."""
        if self.folder == self._target:
            return
        for path in checksums.files_in(self.folder):
            content = path.read_bytes()
            digest = hashlib.sha256(content).digest()
            if digest != self._written.get(cast(Path, path)):
                (self._target / path.relative_to(self.folder).as_posix()).write_bytes(content)
                self._written[cast(Path, path)] = digest

    def close(self) -> None:
        """Copies the files, and deletes a temporary folder."""
        try:
            self.flush()
        finally:
            if self.folder != self._target:
                shutil.rmtree(self.folder, ignore_errors=True)
