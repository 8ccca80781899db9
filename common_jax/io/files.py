"""Files by name or pattern, plain or compressed, and their lines as `wc -l` counts them."""

import bz2
import contextlib
import functools
import glob
import gzip
import io
import logging
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

from common_jax.errors import UserError
from common_jax.fields import split_list
from common_jax.io.paths import AnyPath, as_path, expand_user, in_bucket
from common_jax.io.storage import local_copy

# The first bytes of each compression, by its name's ending.
_MAGIC = {
    ".gz": b"\x1f\x8b",
    ".bz2": b"BZh",
    ".xz": b"\xfd7zXZ\0",
    ".zst": b"\x28\xb5\x2f\xfd",
    ".zip": b"PK\x03\x04",
}
_NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd", ".zip": "zip"}
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
LONGEST = 2**28  # bytes of a line: a small compressed file can unpack to an unlimited one
BOM = b"\xef\xbb\xbf"

_log = logging.getLogger(__name__)


def names_in(value: str, key: str, folder: str | Path | None = None) -> list[str]:
    """The comma-separated names in the value of the config field `key` (`split_list`).

    Args:
      folder: if there is a file of the whole value in it, also with another ending, as of parallel
        files, or a compression, this is the only name.

    Raises:
      UserError: if one is empty.
    """
    if folder is not None and not in_bucket(folder) and "," in value:
        path = Path(folder, value)
        if exists(path.parent, path.name) or file_endings(path):
            return [value]
    names = split_list(value, key)
    if not all(names):
        raise UserError(f"{key}: name its files")
    return names


def find_file(stem: str | Path) -> Path:
    """The file `stem`, or else `stem` with the ending of a compression.

    Raises:
      UserError: if none exists.
    """
    stem = Path(stem)
    for ending in ("", *_MAGIC):
        if stem.name and os.path.isfile(path := stem.with_name(stem.name + ending)):
            return path
    if os.path.isdir(stem):
        raise UserError(f"{stem}: a folder, not a file")
    *endings, last = _MAGIC
    tried = "" if stem.suffix in _MAGIC else f", nor with {', '.join(endings)} or {last}"
    raise UserError(f"{stem}: no such file{tried}")


def find_files(folder: Path, name: str, key: str) -> list[Path]:
    """The files of a name or of a pattern such as "train-*.parquet", sorted as by `matches`.

    Args:
      key: the config key with the name.

    Raises:
      UserError: if there is none.
    """
    if not is_pattern(folder, name):
        return [find_file(folder / name)]
    files = [path for path in matches(folder, name) if path.is_file()]
    if not files:
        raise UserError(f"{key}={name}: no file in {folder} matches this pattern")
    return files


def require_distinct(sources: Iterable[Sequence[Path]], key: str) -> None:
    """Raises UserError if the config field `key` names a source, one file or two, twice."""
    seen = set[tuple[str, ...]]()
    for files in sources:
        real = tuple(map(os.path.realpath, files))
        if real in seen:
            raise UserError(f"{key}: {files[0]}: named twice; name it once")
        seen.add(real)


def exists(folder: Path, name: str) -> bool:
    """Whether there is a file of a name, plain or compressed, or of a pattern."""
    names = [f"{name}{ending}" for ending in ("", *_MAGIC)]
    if is_pattern(folder, name):
        return any(path.is_file() for pattern in names for path in matches(folder, pattern))
    return any(os.path.isfile(folder / path) for path in names)


def is_pattern(folder: Path, name: str) -> bool:
    """Whether a name has wildcards, and is not that of an existing file."""
    return bool(set(name) & set("*?[")) and not os.path.exists(folder / name)


def matches(folder: Path, pattern: str) -> list[Path]:
    """The paths that match, "train-2" before "train-10"."""

    def in_order(name: str) -> list[int | str]:
        return [int(t) if t.isdecimal() else t for t in re.split("([0-9]+)", name)]

    return [folder / name for name in sorted(glob.glob(pattern, root_dir=folder), key=in_order)]


def uncompressed_name(path: str | Path) -> str:
    """A file's name without the ending of its compression."""
    name = Path(path).name
    return name[: -len(suffix)] if (suffix := Path(name).suffix).lower() in _MAGIC else name


def ending(path: str | Path) -> str:
    """The ending of a file's name, or of the only file in a zip without another ending, in lower
    case: "csv" of a.CSV.gz."""
    name = uncompressed_name(path)
    if name != Path(path).name and "." not in name and (members := _members(Path(path))):
        name = members[0]
    return name.rpartition(".")[2].lower() if "." in name else ""


def file_endings(stem: Path) -> list[str]:
    """The endings, such as "de", of the files `stem`.ENDING, plain or compressed."""
    files = stem.parent.iterdir() if stem.parent.is_dir() else ()
    names = {uncompressed_name(file) for file in files}
    partitions = [name.rpartition(".") for name in names]
    return sorted(ending for start, _, ending in partitions if start == stem.name)


def find_folder(path: str, key: str) -> Path:
    """The folder `path`, which the config key `key` names, or the copy of one in a bucket.

    Raises:
      UserError: if it does not exist.
    """
    folder = local_copy(expand_user(path, key), key)
    if not os.path.isdir(folder):
        raise UserError(f"{key}={path}: no such folder")
    return folder


def read_lines(path: str | AnyPath) -> Iterator[str]:
    r"""The lines of a UTF-8 file, without their ends, streaming.

    Only "\n" separates lines (one "\r" before it goes too), or "\r" in a file without any "\n":
    other "\r", U+2028, "\x0b", U+0085 and their like are text: parallel files stay parallel. A last
    line without an end counts. A byte order mark at the start is dropped. Compressions are
    recognised by their first bytes; a zip must contain one file.

    Raises:
      UserError: a missing or unreadable file, a folder, broken compressed data, a zip with none
        or several to read, a line not in UTF-8.
    """
    for number, line in enumerate(read_raw_lines(path), start=1):
        yield decode_line(line, path, number)


def read_raw_lines(path: str | AnyPath, member: str = "", ends: bool = False) -> Iterator[bytes]:
    """As `read_lines`, but bytes.

    Args:
      member: the ending of the file to read in a zip of several.
      ends: whether lines have their ends.
    """
    path = as_path(path)
    number = 0
    returns = 0
    try:
        with open_bytes(path, member) as file:
            for number, whole in enumerate(lines_of(file, path), start=1):
                line = whole.removesuffix(b"\n").removesuffix(b"\r")
                returns += b"\r" in line
                line = whole if ends else line
                yield line.removeprefix(BOM) if number == 1 else line
        if returns:
            _log_once(f"{path}: carriage returns inside of {returns} lines are white space")
    except _DAMAGE as error:
        raise unreadable(path, error, number + 1) from error


@contextlib.contextmanager
def reading(path: AnyPath) -> Iterator[io.BufferedReader]:
    """The open file, decompressed; errors of reading it become a UserError."""
    try:
        with open_bytes(path) as file:
            yield file
    except _DAMAGE as error:
        raise unreadable(path, error) from error


def unreadable(path: AnyPath, error: Exception, line: int = 0) -> UserError:
    """The error for a file that cannot be read, at a line if it is known."""
    system = isinstance(error, OSError) and error.errno is not None
    compression = None if system else _compression(path)
    if compression is None:
        return UserError(f"{path}: {getattr(error, 'strerror', None) or error}")
    place = f"{path}:{line}" if line else str(path)
    return UserError(
        f"{place}: the {_NAMES[compression]} data is damaged or cut off ({error or 'its end'})"
    )


def lines_of(file: io.BufferedIOBase, place: str | AnyPath) -> Iterator[bytes]:
    """The lines of an open file with their ends, as of `read_lines`, of limited length.

    Raises:
      UserError: for a line of more than `LONGEST` bytes.
    """
    for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), start=1):
        if len(line) > LONGEST:
            raise UserError(f"{place}:{number}: a line of more than {LONGEST >> 20} MiB; split it")
        if number == 1 and ends_in_returns(line):
            _log_once(f"{place}: no line feeds: carriage returns end its lines")
            yield from re.findall(rb"[^\r]*\r|[^\r]+", line)
        else:
            yield line


def ends_in_returns(line: bytes) -> bool:
    """Whether carriage returns end the lines of a file with this first line."""
    return b"\r" in line[:-1] and not line.endswith(b"\n")


@functools.cache
def _log_once(message: str) -> None:
    """Logs a property of a file, which may be read several times."""
    _log.info("%s", message)


def decode_line(line: bytes, path: str | AnyPath, number: int) -> str:
    """The text of one line; `path` and `number` are for the error message.

    Raises:
      UserError: if it is not UTF-8.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}:{number}: not UTF-8 (byte 0x{line[error.start]:02x} after {error.start} bytes)"
        ) from error


def open_bytes(path: AnyPath, member: str = "") -> io.BufferedReader:
    """The open file, decompressed on a disk; `member` as of `read_raw_lines`.

    Raises:
      UserError: for a pipe, of which each reading would be another part.
    """
    if in_bucket(path):
        return io.BufferedReader(io.BytesIO(path.read_bytes()))  # type: ignore[arg-type]
    if is_pipe(path):
        raise UserError(f"{path}: a pipe, which can be read once only; write it to a file")
    match _compression(path):
        case ".gz":
            if not (start := _start(path)).startswith(_MAGIC[".gz"]):
                raise gzip.BadGzipFile("no gzip header" if start else "an empty file")
            return io.BufferedReader(gzip.GzipFile(path))
        case ".zip":
            return _open_zip(path, member)
        case ".bz2":
            return io.BufferedReader(bz2.BZ2File(path))
        case ".xz":
            return io.BufferedReader(lzma.LZMAFile(path))
        case ".zst":
            import pyarrow  # takes a while

            return io.BufferedReader(pyarrow.input_stream(str(path), compression="zstd"))
    return path.open("rb")


def is_pipe(path: Path) -> bool:
    """Whether a path on a disk is a pipe or a terminal."""
    return path.is_fifo() or path.is_socket() or (path.is_char_device() and path.name != "null")


def _open_zip(path: Path, member: str) -> io.BufferedReader:
    with zipfile.ZipFile(path) as archive:  # its open members stay readable after it is closed
        names = _members(path)
        texts = [name for name in names if len(names) == 1 or (member and name.endswith(member))]
        if len(texts) != 1:
            counted = f"{len(texts)} files in it ending in {member}" if texts else "no file in it"
            if names and not texts:
                counted = f"{len(names)} files in it ({', '.join(names)[:200]})"
            raise UserError(f"{path}: {counted}; unpack it and name the one")
        try:
            opened = archive.open(texts[0])
        except RuntimeError as error:  # a password, or a method of compression without support
            raise UserError(f"{path}: {texts[0]} in it cannot be read ({error})") from error
    # Reading lines is many times faster with a buffer; the cast is for the type stubs.
    return io.BufferedReader(cast(io.RawIOBase, opened), 1 << 16)


def _members(path: Path) -> list[str]:
    """The names of the files in a zip; none of another file."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [info.filename for info in archive.infolist() if not info.is_dir()]
    except (OSError, zipfile.BadZipFile):
        return []
    return [name for name in names if not name.startswith("__MACOSX/")]


def _compression(path: Path) -> str | None:
    """The ending of a file's compression, by its name or its first bytes."""
    start = _start(path)
    if start[4:] and start.startswith(b"BZh") and start[4:10] != b"1AY&SY":  # a text
        start = b""
    by_content = (ending for ending, magic in _MAGIC.items() if start.startswith(magic))
    by_name = path.suffix.lower() if path.suffix.lower() in _MAGIC else None
    return next(by_content, by_name)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(10)
