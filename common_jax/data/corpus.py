"""A prepared corpus: token ids in flat files, built once and read by memory map.

Its folder has `meta.json` and for each column `COLUMN.tokens` (int32, all rows concatenated) and
`COLUMN.offsets` (int64 [rows + 1], the start of each row).
"""

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Bool, Int, Int32, Int64

from common_jax.data import raw_files
from common_jax.errors import UserError
from common_jax.io import checksums, guards, lock
from common_jax.io.folder import Folder
from common_jax.io.paths import expand_user
from common_jax.io.storage import folder_of

_FORMAT = 1
_DAMAGE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
_CHUNK = 1024  # rows appended to a file at once
_TOKEN = np.dtype("<i4")
_OFFSET = np.dtype("<i8")
_FINGERPRINT = "fingerprint.json"  # the last file that is written
OVERLAPS = "overlaps.json"
NOT_CONTENT = (_FINGERPRINT, "meta.json", OVERLAPS)  # of a prepared folder: how it was made

_log = logging.getLogger(__name__)

Tokens = Sequence[int] | Int[np.ndarray, "_"]


class FlatRows(NamedTuple):
    """The concatenated rows of a column, and the length of each."""

    tokens: Int32[np.ndarray, "_"]
    lengths: Int64[np.ndarray, "n"]

    def select(self, mask: Bool[np.ndarray, "n"]) -> "FlatRows":
        """The rows where the mask is True."""
        return FlatRows(self.tokens[np.repeat(mask, self.lengths)], self.lengths[mask])


class Corpus:
    """A prepared corpus, memory-mapped for reading. Rows are numbered from 0.

    Attributes:
      columns: their names.
      meta: `Writer.meta`.
    """

    def __init__(self, path: Path, meta: Mapping[str, Any]):
        """Use `open`."""
        self._rows = meta["rows"]
        self.meta = meta["meta"]
        columns = meta["columns"]
        self.columns = tuple(columns)
        self._offsets = {
            c: _memory_map(path / f"{c}.offsets", _OFFSET, self._rows + 1) for c in columns
        }
        self._tokens = {c: _memory_map(path / f"{c}.tokens", _TOKEN, n) for c, n in columns.items()}
        for name, starts in self._offsets.items():
            if starts[0] or starts[-1] != columns[name] or np.any(starts[1:] < starts[:-1]):
                raise ValueError(f"{name}.offsets: invalid starts of rows")

    @classmethod
    def open(cls, path: str | Path) -> "Corpus":
        """Opens the corpus in the folder `path`.

        Raises:
          UserError: if it is missing, of another format, truncated or inconsistent.
        """
        path = Path(path)
        try:
            meta = json.loads((path / "meta.json").read_text("utf-8"))
            if meta["format"] != _FORMAT:
                raise ValueError(f"format {meta['format']}, not {_FORMAT}")
            return cls(path, meta)
        except _DAMAGE as error:
            raise UserError(
                f"{path}: not a complete prepared corpus; delete the folder to prepare it again "
                f"({type(error).__name__}: {error})"
            ) from error

    def __len__(self) -> int:
        return self._rows

    def tokens(self, column: str) -> int:
        """The number of tokens of a column in all rows."""
        return len(self._tokens[column])

    def lengths(self, *columns: str) -> Int64[np.ndarray, "n c"]:
        """The number of tokens of each row in each of the columns."""
        return np.stack([np.diff(self._offsets[column]) for column in columns], axis=1)

    def row(self, row: int, column: str) -> Int32[np.ndarray, "length"]:
        """One row's tokens."""
        start, stop = self._offsets[column][row : row + 2]
        return np.array(self._tokens[column][start:stop])

    def rows(self, rows: Int[np.ndarray, "n"], column: str) -> list[Int32[np.ndarray, "_"]]:
        """The tokens of each of several rows."""
        flat, lengths = self.flat(rows, column)
        return np.split(flat, np.cumsum(lengths)[:-1]) if len(rows) else []

    def column(self, name: str) -> Int32[np.ndarray, "n"]:
        """The elements of a column that has one in each row."""
        return self.gather(np.arange(len(self)), name, 1)[:, 0]

    def gather(
        self, rows: Int[np.ndarray, "n"], column: str, width: int
    ) -> Int32[np.ndarray, "n {width}"]:
        """Rows padded with zeros to `width`; a negative row number is all zeros.

        Raises:
          ValueError: if a row is longer than `width`; nothing is truncated.
        """
        flat, lengths = self.flat(rows, column)
        if lengths.size and lengths.max() > width:
            longest = lengths.argmax()
            raise ValueError(
                f"row {rows[longest]} of {column!r} has {lengths[longest]} tokens, over {width}"
            )
        padded = np.zeros((len(rows), width), np.int32)
        padded[np.arange(width) < lengths[:, None]] = flat
        return padded

    def flat(
        self, rows: Int[np.ndarray, "n"], column: str
    ) -> tuple[Int32[np.ndarray, "_"], Int64[np.ndarray, "n"]]:
        """The concatenated tokens of rows, and their lengths; a negative row number has none."""
        rows = np.asarray(rows, np.int64)
        offsets = self._offsets[column]
        starts, lengths = np.zeros((2, len(rows)), np.int64)
        real = rows >= 0
        starts[real] = offsets[rows[real]]
        lengths[real] = offsets[rows[real] + 1] - starts[real]
        before = np.cumsum(lengths) - lengths
        indexes = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
        return self._tokens[column][indexes], lengths


class Writer:
    """A context manager that writes a corpus row by row, in constant memory.

    After an exception it writes no `meta.json`, so that `Corpus.open` rejects the folder.

    Attributes:
      meta: further data in `meta.json`, as JSON.
    """

    def __init__(self, path: str | Path, columns: Sequence[str]):
        """
        Args:
          path: the folder, which is created if necessary.
        """
        self._path = Path(path)
        self._path.mkdir(parents=True, exist_ok=True)
        self._rows = 0
        self._pending: list[Mapping[str, Tokens]] = []
        self._counts = dict.fromkeys(columns, 0)
        self.meta: dict[str, Any] = {}
        self._files = contextlib.ExitStack()
        self._file = {
            name: self._files.enter_context((self._path / name).open("wb"))
            for column in columns
            for name in (f"{column}.tokens", f"{column}.offsets")
        }
        for column in columns:
            self._file[f"{column}.offsets"].write(np.zeros(1, _OFFSET).tobytes())

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._rows + len(self._pending)

    def extend(self, columns: Mapping[str, Sequence[Tokens]]) -> None:
        """Appends rows: for each column, the tokens of each row."""
        flat_columns = {}
        for column, rows in columns.items():
            lengths = np.fromiter(map(len, rows), _OFFSET, len(rows))
            tokens = [np.zeros(0, _TOKEN), *(np.asarray(row, _TOKEN) for row in rows)]
            flat_columns[column] = FlatRows(np.concatenate(tokens), lengths)
        self.extend_flat(flat_columns)

    def extend_flat(self, columns: Mapping[str, FlatRows]) -> None:
        """As `extend`, from concatenated rows."""
        self._flush()
        self._check(columns)
        counts = {len(rows.lengths) for rows in columns.values()}
        if len(counts) > 1:
            raise ValueError("columns of different numbers of rows")
        for column, (tokens, lengths) in columns.items():
            self._file[f"{column}.tokens"].write(tokens.astype(_TOKEN, copy=False).tobytes())
            ends = self._counts[column] + np.cumsum(lengths, dtype=_OFFSET)
            self._file[f"{column}.offsets"].write(ends.tobytes())
            self._counts[column] += len(tokens)
        self._rows += counts.pop()

    def append(self, row: Mapping[str, Tokens]) -> None:
        """Appends one row: its tokens in each column."""
        self._check(row)
        self._pending.append(row)
        if len(self._pending) == _CHUNK:
            self._flush()

    def _check(self, columns: Mapping[str, Any]) -> None:
        if columns.keys() != self._counts.keys():
            raise ValueError(f"columns {list(columns)}, not {list(self._counts)}")

    def _flush(self) -> None:
        rows = self._pending
        self._pending = []
        if rows:
            self.extend({column: [row[column] for row in rows] for column in rows[0]})

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind, error, traceback) -> None:
        with self._files:
            if kind is None:
                self._flush()
        if kind is None:
            meta = {"format": _FORMAT, "rows": self.rows, "columns": self._counts}
            text = json.dumps({**meta, "meta": self.meta}, ensure_ascii=False)
            (self._path / "meta.json").write_text(text + "\n", "utf-8")


def prepare(
    cache_dir: str | Path, fingerprint: Mapping[str, Any], build: Callable[[Path], None]
) -> Path:
    """The folder in `cache_dir` for a fingerprint, built if it does not exist.

    The folder's name is a hash of the fingerprint. It is built under a lock in a temporary folder
    and renamed when it is complete: a second process waits for the first, and starts anew after a
    killed one.

    If programs cannot open files in `cache_dir`, as in a bucket, the folder is on this machine's
    disk, in `Folder.local`: fetched from `cache_dir` and verified if it is there, else built and
    published there.

    Args:
      cache_dir: "~" is the home folder.
      fingerprint: all that determines the content, as JSON: first the kind of corpus and the number
        of its format, then the sources' content (`file_identity`) and the settings.
      build: fills an empty folder; its OSErrors become errors of the cache.

    Raises:
      UserError: if `cache_dir` cannot be written, or by `build`.
    """
    text = _fingerprint_text(fingerprint)
    name = _folder_name(text)
    cache = _cache(cache_dir)
    local = cast(Path, cache.local.path)
    path = local / name
    unfinished = local / f"{name}.tmp"

    def waiting() -> None:
        _log.info("waiting for another process that prepares %s", path)

    try:
        if path.is_dir() and name in cache.complete(_FINGERPRINT):
            return path
        local.mkdir(parents=True, exist_ok=True)
        with lock.held(local / f"{name}.lock", waiting):
            # Build it, or fetch it from the cache.
            if not path.is_dir():
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir()
                _log_other_formats(local, fingerprint)
                try:
                    if not _fetch(cache, name, unfinished):
                        build(unfinished)
                        checksums.seal(unfinished, leave=NOT_CONTENT)
                        (unfinished / _FINGERPRINT).write_text(text + "\n", "utf-8")
                    guards.require(path)
                    unfinished.rename(path)
                except BaseException:
                    shutil.rmtree(unfinished, ignore_errors=True)
                    raise

            # Publish it for other machines.
            if name not in cache.complete(_FINGERPRINT):
                _log.info("uploading the prepared corpus to %s", cache.path / name)
                cache.publish(path, name, last=_FINGERPRINT)
    except OSError as error:
        raise UserError(
            f"data.cache_dir={local}: cannot prepare a corpus there: "
            f"{error.strerror or error}; name a folder that can be written and has room"
        ) from error
    return path


def is_prepared(cache_dir: str | Path, fingerprint: Mapping[str, Any]) -> bool:
    """Whether `prepare` has built the folder for a fingerprint."""
    name = _folder_name(_fingerprint_text(fingerprint))
    cache = _cache(cache_dir)
    return any(name in folder.complete(_FINGERPRINT) for folder in (cache.local, cache))


def _fingerprint_text(fingerprint: Mapping[str, Any]) -> str:
    return json.dumps(fingerprint, sort_keys=True, ensure_ascii=False)


def _cache(cache_dir: str | Path) -> Folder:
    return folder_of(expand_user(cache_dir, "data.cache_dir"))


def _folder_name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _fetch(cache: Folder, name: str, folder: Path) -> bool:
    """Copies a folder of the cache that is not on this machine; returns whether there is one.
    Raises UserError for damage."""
    if name not in cache.complete(_FINGERPRINT):
        return False
    source = cache.path / name
    _log.info("fetching the prepared corpus from %s", source)
    cache.fetch(name, folder)
    if damage := checksums.find_damage(folder):
        raise UserError(f"{source}: a damaged corpus ({damage}); delete it, to prepare it again")
    return True


def _log_other_formats(cache_dir: Path, fingerprint: Mapping[str, Any]) -> None:
    """Logs the folders whose fingerprint differs only in the number of the format."""
    format_name, number = next(iter(fingerprint.items()), ("", None))
    for path in sorted(cache_dir.glob(f"*/{_FINGERPRINT}")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            other = json.loads(path.read_text("utf-8"))
            if format_name in other and other | {format_name: number} == fingerprint:
                _log.info(
                    "%s has format %s, and this version reads format %s: the corpus is prepared "
                    "again, and the folder can be deleted",
                    *(path.parent, other[format_name], number),
                )


def file_identity(path: str | Path) -> dict[str, Any]:
    """A file's size in bytes and the SHA-256 of its content, for a fingerprint; of a folder, those
    of its files' names and sizes.

    Raises:
      UserError: if it cannot be read.
    """
    try:
        return raw_files.describe(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def recorded_identity(size: int, sha256: str) -> dict[str, Any]:
    """Identifies the output of code, for a fingerprint: the `file_identity` of the source file that
    first produced it. Change it only if the output changes, so that prepared corpora stay valid."""
    return {"bytes": size, "sha256": sha256}


def _memory_map(path: Path, kind: np.dtype, count: int) -> np.ndarray:
    """Memory-maps a file of `count` elements."""
    size = path.stat().st_size
    if size != count * kind.itemsize:
        raise ValueError(f"{path.name} has {size} bytes, not {count * kind.itemsize}")
    return np.memmap(path, kind, "r", shape=(count,)) if count else np.zeros(0, kind)
