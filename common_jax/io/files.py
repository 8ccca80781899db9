"""Lines of text files, plain, gzipped or zipped, counted as `wc -l` counts them."""

import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from common_jax.errors import UserError

_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
LONGEST = 2**28  # bytes of a line: a small compressed file can unpack to an unlimited one
_BOM = b"\xef\xbb\xbf"


def names_in(value: str, key: str) -> list[str]:
    """The comma-separated names in the value of the config field `key`.

    Raises:
      UserError: if one is empty.
    """
    names = [name.strip() for name in value.split(",")]
    if not all(names):
        raise UserError(f"{key}: name its files")
    return names


def find_file(stem: str | Path) -> Path:
    """The file `stem`, or else `stem`.gz.

    Raises:
      UserError: if neither exists.
    """
    stem = Path(stem)
    for path in (stem, stem.with_name(stem.name + ".gz")):
        if os.path.isfile(path):
            return path
    if os.path.isdir(stem):
        raise UserError(f"{stem}: a folder, not a file")
    raise UserError(f"{stem}: no such file" + ("" if stem.suffix == ".gz" else ", nor with .gz"))


def file_endings(stem: Path) -> list[str]:
    """The endings, such as "de", of the files `stem`.ENDING, plain or .gz; none without a
    folder."""
    files = stem.parent.iterdir() if stem.parent.is_dir() else ()
    names = {file.name.removesuffix(".gz") for file in files}
    partitions = [name.rpartition(".") for name in names]
    return sorted(ending for start, _, ending in partitions if start == stem.name)


def find_folder(path: str, key: str) -> Path:
    """The folder `path`, which the config key `key` names.

    Raises:
      UserError: if it does not exist.
    """
    folder = Path(os.path.expanduser(path))
    if not os.path.isdir(folder):
        raise UserError(f"{key}={path}: no such folder")
    return folder


def read_lines(path: str | Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, without their ends, streaming.

    Only "\n" separates lines (one "\r" before it goes too): U+2028, "\x0b", U+0085 and their like
    are text, so that parallel files stay parallel. A last line without "\n" counts. A byte order
    mark at the start is dropped. Gzip and zip are recognised by their first bytes; a zip must
    contain one file that ends in .txt.

    Raises:
      UserError: a missing or unreadable file, a folder, broken gzip or zip data, a zip with none
        or several to read, a line not in UTF-8.
    """
    for number, line in enumerate(read_raw_lines(path), start=1):
        yield decode_line(line, path, number)


def read_raw_lines(path: str | Path) -> Iterator[bytes]:
    """As `read_lines`, the bytes of each line not yet decoded."""
    path, number = Path(path), 0
    try:
        with _open(path) as file:
            for number, line in enumerate(lines_of(file, path), start=1):
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                yield line.removeprefix(_BOM) if number == 1 else line
    except (gzip.BadGzipFile, zipfile.BadZipFile, EOFError, zlib.error) as error:
        compression = "zip" if _is_zip(path) else "gzip"
        raise UserError(
            f"{path}:{number + 1}: the {compression} data is damaged or cut off ({error})"
        ) from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error


def lines_of(file: io.BufferedIOBase, place: str | Path) -> Iterator[bytes]:
    """The lines of an open file with their ends, of limited length.

    Raises:
      UserError: for a line of more than `LONGEST` bytes.
    """
    for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), start=1):
        if len(line) > LONGEST:
            raise UserError(f"{place}:{number}: a line of more than {LONGEST >> 20} MiB; split it")
        yield line


def decode_line(line: bytes, path: str | Path, number: int) -> str:
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


def _open(path: Path) -> io.BufferedReader:
    start = _start(path)
    if start.startswith(_GZIP_MAGIC):
        return io.BufferedReader(gzip.GzipFile(path))
    if _is_zip(path):
        return _open_zip(path)
    if path.suffix == ".gz":
        raise gzip.BadGzipFile("no gzip header" if start else "an empty file")
    return path.open("rb")


def _open_zip(path: Path) -> io.BufferedReader:
    with zipfile.ZipFile(path) as archive:  # its open members stay readable after it is closed
        names = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
        texts = [name for name in names if name.endswith(".txt")]
        if len(texts) != 1:
            counted = f"{len(texts)} files" if texts else "no file"
            raise UserError(f"{path}: {counted} in it ending in .txt; unpack it and name the one")
        try:
            member = archive.open(texts[0])
        except RuntimeError as error:  # a password, or a method of compression without support
            raise UserError(f"{path}: {texts[0]} in it cannot be read ({error})") from error
    # Reading lines is many times faster with a buffer; the cast is for the type stubs.
    return io.BufferedReader(cast(io.RawIOBase, member), 1 << 16)


def _is_zip(path: Path) -> bool:
    return path.suffix == ".zip" or _start(path) == _ZIP_MAGIC


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)
