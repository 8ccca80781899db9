"""Digests and properties of raw files, stored in the cache: an unchanged file is hashed once.

A file is unchanged if it has the same path, size and modification time. The fingerprint of each
corpus is stored too, so that its prepared folder is usable without the raw files.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.io import checksums
from common_jax.io.atomic import replace_text
from common_jax.io.paths import AnyPath, expand_user
from common_jax.io.storage import folder_of

_FOLDER = "raw"  # in the cache
_SETTLED = 2_000_000_000  # ns, the coarsest time stamps: a newer file may change with equal ones

_records: ContextVar["RawFiles | None"] = ContextVar("raw_files", default=None)


class RawFiles:
    """The records in a cache.

    Attributes:
      identities: `describe` of each file that was identified, by absolute path.
    """

    def __init__(self, cache_dir: str | Path):
        cache = folder_of(expand_user(cache_dir, "data.cache_dir"))
        self._folder = cache.local.path / _FOLDER
        self._corpora = cache.path / _FOLDER
        self.identities: dict[str, dict[str, Any]] = {}

    def describe(self, path: str | Path) -> dict[str, Any]:
        """As `describe`; hashes a file only if it has changed.

        Raises:
          OSError: if it cannot be read.
        """
        key = os.path.abspath(path)
        if os.path.isdir(path):  # whose time does not tell whether a file in it has changed
            self.identities[key] = checksums.describe_folder(path)
        else:
            self.identities[key] = self._stored(
                key, path, "identity", dict, lambda: checksums.describe(path)
            )
        return self.identities[key]

    def text_of(self, path: str | Path, name: str, compute: Callable[[], str]) -> str:
        """A property of a file by its name; as `describe`."""
        key = [os.path.abspath(path), name]
        return self._stored(key, path, name, str, compute)

    def _stored(
        self,
        key: Any,
        path: str | Path,
        name: str,
        kind: type,
        compute: Callable[[], Any],
    ) -> Any:
        """The value `name` of a kind in the record `key`, computed only if the file has changed."""
        before = os.stat(path)
        record = self._read(key)
        stamp = [before.st_size, before.st_mtime_ns]
        if record.get("stamp") != stamp or not isinstance(record.get(name), kind):
            settled = time.time_ns() - before.st_mtime_ns > _SETTLED
            record = {"stamp": stamp if settled else None, name: compute()}
            self._write(key, record)
        return record[name]

    def remember(self, request: Any, fingerprint: Mapping[str, Any]) -> None:
        """Stores the fingerprint of a corpus and the files that were identified.

        Args:
          request: identifies the corpus by its settings and the names of its files, as JSON.
        """
        self._write(request, {"fingerprint": fingerprint, "files": self.identities}, self._corpora)

    def recall(self, request: Any) -> tuple[dict[str, Any], list[str]] | None:
        """The stored fingerprint of a corpus, and its missing files; None if no file is missing,
        one has changed, or nothing is stored."""
        record = self._read(request, self._corpora)
        try:
            files = dict(record["files"])
            missing = [path for path in files if not os.path.exists(path)]
            same = all(p in missing or self.describe(p) == files[p] for p in files)
            return (dict(record["fingerprint"]), missing) if missing and same else None
        except (OSError, LookupError, TypeError, ValueError):
            return None

    def _read(self, key: Any, folder: AnyPath | None = None) -> dict[str, Any]:
        try:
            record = json.loads(self._file(key, folder).read_text("utf-8"))
            return record if isinstance(record, dict) else {}
        except (OSError, ValueError, RecursionError):
            return {}

    def _write(self, key: Any, record: Mapping[str, Any], folder: AnyPath | None = None) -> None:
        """Writes a record, unless the cache cannot be written."""
        with contextlib.suppress(OSError, UserError):
            file = self._file(key, folder)
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_text(file, json.dumps({"of": key, **record}) + "\n")

    def _file(self, key: Any, folder: AnyPath | None) -> AnyPath:
        text = json.dumps(key, sort_keys=True, ensure_ascii=False)
        return (folder or self._folder) / f"{hashlib.sha256(text.encode()).hexdigest()[:20]}.json"


@contextlib.contextmanager
def recorded(cache_dir: str | Path) -> Iterator[RawFiles]:
    """Within it, `describe` uses the records in `cache_dir`."""
    files = RawFiles(cache_dir)
    token = _records.set(files)
    try:
        yield files
    finally:
        _records.reset(token)


def describe(path: str | Path) -> dict[str, Any]:
    """A file's size in bytes and the SHA-256 of its content, within `recorded` from its record; of
    a folder `checksums.describe_folder`.

    Raises:
      OSError: if it cannot be read.
    """
    files = _records.get()
    if files is not None:
        return files.describe(path)
    return checksums.describe_folder(path) if os.path.isdir(path) else checksums.describe(path)


def text_of(path: str | Path, name: str, compute: Callable[[], str]) -> str:
    """A property of a file by its name, within `recorded` from its record.

    Raises:
      UserError: as `compute`.
    """
    files = _records.get()
    return compute() if files is None else files.text_of(path, name, compute)
