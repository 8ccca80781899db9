"""Lines of text files, plain or gzipped, counted as `wc -l` counts them."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from common_jax.errors import UserError

_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


def find_file(stem: str | Path) -> Path:
    """The file `stem`, or else `stem`.gz.

    Raises:
      UserError: if neither is a file.
    """
    stem = Path(stem)
    for path in (stem, stem.with_name(stem.name + ".gz")):
        if path.is_file():
            return path
    if stem.is_dir():
        raise UserError(f"{stem}: a folder, not a file")
    raise UserError(f"{stem}: no such file" + ("" if stem.suffix == ".gz" else ", nor with .gz"))


def read_lines(path: str | Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, without their ends, streaming.

    Only "\n" separates lines (one "\r" before it goes too): U+2028, "\x0b", U+0085 and their like
    are text, so that parallel files stay parallel. A last line without "\n" counts. A byte order
    mark at the start is dropped. Gzip is known by its first bytes.

    Raises:
      UserError: a missing or unreadable file, a folder, broken gzip data, a line not in UTF-8.
    """
    for number, line in enumerate(read_raw_lines(path), start=1):
        yield decode_line(line, path, number)


def read_raw_lines(path: str | Path) -> Iterator[bytes]:
    """As `read_lines`, the bytes of each line not yet decoded."""
    path, number = Path(path), 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                yield line.removeprefix(_BOM) if number == 1 else line
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(
            f"{path}:{number + 1}: the gzip data is damaged or cut off ({error})"
        ) from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from error


def decode_line(line: bytes, path: str | Path, number: int) -> str:
    """The text of one line; `path` and `number` are for the error.

    Raises:
      UserError: if it is not UTF-8.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}:{number}: not UTF-8 (byte 0x{line[error.start]:02x} after {error.start} bytes)"
        ) from error


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        start = file.read(2)
    if start == _GZIP_MAGIC:
        return io.BufferedReader(gzip.GzipFile(path))
    if path.suffix == ".gz":
        raise gzip.BadGzipFile("no gzip header" if start else "an empty file")
    return path.open("rb")
