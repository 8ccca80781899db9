"""Paths in a bucket of Google Cloud Storage, by TensorStore, which Orbax uses for arrays.

`BucketPath` is registered with epath, so that Orbax uses it too. TensorStore's client needs no
further package, repeats failed requests, has preconditions, and distinguishes a missing object from
one that cannot be read; gcsfs, epath's own, reports both as missing.
"""

import contextlib
import errno
import fnmatch
import functools
import io
import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import tensorstore as ts
from etils import epath
from etils.epath import backend, gpath, stat_utils

from common_jax.errors import UserError
from common_jax.io import bucket_state, guards
from common_jax.io.bucket_state import State

# The first request to a bucket fails after about 12 seconds; later ones, on which a run depends,
# are repeated until `BucketState` gives the bucket up, and are then tried once.
_ATTEMPTS = {"new": 7, "answering": 1000, "given up": 1}
_LONGEST_DELAY = {"new": "3s", "answering": "10s", "given up": "10s"}
_NORMAL = ("404", "412")  # statuses of a missing object and of a precondition


@functools.lru_cache
def _store(bucket: str, state: State) -> ts.KvStore:
    retries = {"max_retries": _ATTEMPTS[state], "initial_delay": "200ms"}
    retries["max_delay"] = _LONGEST_DELAY[state]
    context = ts.Context({"gcs_request_retries": retries})
    return ts.KvStore.open({"driver": "gcs", "bucket": bucket}, context=context).result()


@contextlib.contextmanager
def _without_advice() -> Iterator[None]:
    """Silences standard error for the first request: looking for credentials, TensorStore reports a
    missing file there even if it then finds a service account."""
    if bucket_state.any_reached():
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def _failures() -> Counter[str]:
    """The number of failed HTTP requests of this process, by status."""
    metrics = ts.experimental_collect_matching_metrics("/tensorstore/http/response_codes")
    counts = {value["code"]: value["value"] for metric in metrics for value in metric["values"]}
    failures = {code: n for code, n in counts.items() if code[0] in "45" and code not in _NORMAL}
    return Counter(failures)


class _Key:
    """An object, or a folder, by its URL."""

    def __init__(self, path: Any):
        self.url = os.fspath(path)
        bucket, _, key = self.url.removeprefix("gs://").partition("/")
        self.name = key.strip("/")
        self.bucket = bucket
        self.folder = f"{self.name}/" if self.name else ""

    def result(self, request: Callable[[ts.KvStore], Any], size: int = 0) -> Any:
        """The result of a request; raises UserError if the service does not give one.

        Args:
          size: in bytes, of which a MiB may take a second.
        """
        state = bucket_state.state_of(self.bucket, _failures)

        def send() -> Any:
            return request(_store(self.bucket, state.state))

        try:
            with _without_advice():
                return state.answer(send, size / 2**20)
        except ValueError as error:
            raise UserError(f"{self.url}: {bucket_state.reason(str(error))}") from error

    def read(self, unless: bytes | None = None) -> Any:
        """The object's `KvStore.ReadResult`; not read if it still has the generation `unless`."""
        return self.result(lambda store: store.read(self.name, if_not_equal=unless), 2**30)

    def write(self, content: bytes | None, if_equal: bytes | None = None) -> bytes:
        """Writes or deletes the object; returns its generation, empty if it was not `if_equal`."""
        guards.require(self.url)
        return self.write_unguarded(content, if_equal)

    def write_unguarded(self, content: bytes | None, if_equal: bytes | None = None) -> bytes:
        """As `write`, also without the lock of the folder."""

        def write(store: ts.KvStore) -> Any:
            return store.write(self.name, content, if_equal=if_equal)

        return self.result(write, len(content or b"")).generation

    def below(self, *, markers: bool = False) -> list[str]:
        """The names of the objects below the folder, relative to it.

        Args:
          markers: whether to list empty objects "NAME/" too, which other tools make for folders.
        """
        end = f"{self.folder[:-1]}0" if self.folder else ""  # "0" follows "/"
        names = [key.decode()[len(self.folder) :] for key in self._list(self.folder, end)]
        return sorted(name for name in names if markers or (name and not name.endswith("/")))

    def is_object(self) -> bool:
        """Whether there is the object."""
        return bool(self.name and self._list(self.name, f"{self.name}\0"))

    def _list(self, first: str, end: str) -> list[bytes]:
        return self.result(lambda store: store.list(ts.KvStore.KeyRange(first, end)))


class _Objects(backend.Backend):
    """epath's file system of objects; a folder exists while there are objects below it."""

    def open(self, path: Any, mode: str) -> Any:
        if mode.startswith("w"):
            return _BinaryUpload(_Key(path)) if "b" in mode else _TextUpload(_Key(path))
        if not mode.startswith("r"):
            raise io.UnsupportedOperation(f"{os.fspath(path)}: objects cannot be appended to")
        content = self._read(path)
        return io.BytesIO(content) if "b" in mode else io.StringIO(content.decode("utf-8"))

    def _read(self, path: Any) -> bytes:
        result = _Key(path).read()
        if result.state != "value":
            raise _missing(path)
        return result.value

    def exists(self, path: Any) -> bool:
        return _Key(path).is_object() or self.isdir(path)

    def isdir(self, path: Any) -> bool:
        return bool(_Key(path).below())

    def listdir(self, path: Any) -> list[str]:
        return list(dict.fromkeys(name.partition("/")[0] for name in _Key(path).below()))

    def glob(self, path: Any) -> list[str]:
        # Split the path before its first pattern.
        components = os.fspath(path).split("/")
        fixed = [*itertools.takewhile(lambda part: not set(part) & set("*?["), components)]
        patterns = components[len(fixed) :]
        base = "/".join(fixed)

        # The paths of as many components, of files and of folders.
        names = (name.split("/") for name in _Key(base).below())
        paths = {tuple(n[: len(patterns)]) for n in names if len(n) >= len(patterns)}
        matching = (n for n in paths if all(map(fnmatch.fnmatchcase, n, patterns)))
        return sorted("/".join([base, *name]) for name in matching)

    def walk(self, top: Any, *, top_down: bool = True, on_error: Any = None) -> Iterator[Any]:
        names = [name.split("/") for name in _Key(top).below()]
        files = sorted(name[0] for name in names if len(name) == 1)
        folders = sorted({name[0] for name in names if len(name) > 1})
        entry = (top, folders, files)
        if top_down:
            yield entry
        for folder in folders:
            yield from self.walk(f"{os.fspath(top)}/{folder}", top_down=top_down)
        if not top_down:
            yield entry

    def makedirs(self, path: Any, *, exist_ok: bool = False, mode: int | None = None) -> None:
        if not exist_ok and self.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fspath(path))

    mkdir = makedirs

    def rmtree(self, path: Any) -> None:
        """Deletes the folder's own files in reverse order, then its folders: what a killed process
        leaves has no commit_success.txt."""
        key = _Key(path)
        names = key.below(markers=True)
        if not names:
            raise _missing(path)
        for name in sorted(names, key=lambda name: ("/" not in name, name), reverse=True):
            key.url = f"{os.fspath(path)}/{name}"
            key.name = f"{key.folder}{name}"
            key.write(None)

    def remove(self, path: Any) -> None:
        if not _Key(path).is_object():
            raise _missing(path)
        _Key(path).write(None)

    def rename(self, path: Any, dst: Any) -> None:
        raise io.UnsupportedOperation(f"{os.fspath(path)}: nothing in a bucket is renamed")

    replace = rename

    def copy(self, path: Any, dst: Any, overwrite: bool) -> None:
        epath.Path(dst).write_bytes(epath.Path(path).read_bytes())

    def stat(self, path: Any) -> stat_utils.StatResult:
        if self.isdir(path):
            return stat_utils.StatResult(is_directory=True, length=0, mtime=0)
        return stat_utils.StatResult(is_directory=False, length=len(self._read(path)), mtime=0)


class _Upload:
    """A file that is uploaded when it is closed, unless an exception ended its block."""

    def __init__(self, key: _Key):
        super().__init__()
        self._key: _Key | None = key

    def __exit__(self, kind, error, traceback) -> None:
        if kind is not None:
            self._key = None
        self.close()

    def close(self) -> None:
        key = self._key
        self._key = None
        content: Any = self.getvalue() if key else b""  # type: ignore[attr-defined]
        super().close()  # type: ignore[misc]
        if key:
            key.write(content.encode() if isinstance(content, str) else content)


class _BinaryUpload(_Upload, io.BytesIO): ...  # type: ignore[misc]


class _TextUpload(_Upload, io.StringIO): ...  # type: ignore[misc]


@epath.register_path_cls("gs://")
class BucketPath(gpath.PosixGPath):
    """A file or folder in a bucket, with pathlib's methods."""

    _backend = _Objects()  # type: ignore[assignment]

    def absolute(self) -> "BucketPath":
        """The path itself: a URL is absolute."""
        return self

    def resolve(self, strict: bool = False) -> "BucketPath":
        """The path itself: a bucket has no links."""
        return self

    def expanduser(self) -> "BucketPath":
        """The path itself: a URL has no "~"."""
        return self

    def is_file(self) -> bool:
        """Whether an object has this name."""
        return _Key(self).is_object()

    def rglob(self, pattern: str) -> Iterator["BucketPath"]:
        """The objects below whose last name fits a pattern."""
        names = _Key(self).below()
        return (self / name for name in names if fnmatch.fnmatch(name.split("/")[-1], pattern))

    @property
    def key(self) -> _Key:
        """The object, for preconditions."""
        return _Key(self)


def _missing(path: Any) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
