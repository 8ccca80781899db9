"""Archives of exports at https://, unpacked into the cache of this machine."""

import contextlib
import gzip
import hashlib
import http.client
import logging
import lzma
import os
import re
import shutil
import ssl
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.io.checksums import is_inside
from common_jax.io.hub import LARGEST
from common_jax.io.paths import CACHE as HOME_CACHE
from common_jax.io.paths import HTTPS, NAMES, expand_user

CACHE = f"{HOME_CACHE}/archives"
_ENDINGS = (".zip", ".tar.gz", ".tgz", ".tar")
_FILES = 10_000  # of an archive
_READ = 2**20  # bytes at a time
_SECONDS = 30.0
_UNREADABLE = (
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(EOFError, OSError, ValueError),
    RuntimeError,  # encrypted, or a rare compression
)
_SHA256 = re.compile(r"sha256=([0-9a-f]{64})")

_log = logging.getLogger(__name__)


def download(url: str) -> Path:
    """Downloads and unpacks an archive into the cache, unless it is there; returns the folder.

    Args:
      url: of the archive; with the fragment #sha256=DIGEST, its content must have this digest.

    Raises:
      UserError: if it cannot be read, is not an archive, has another digest or more than `LARGEST`
        bytes.
    """
    address, _, fragment = url.partition("#")
    require(
        _path(address).endswith(_ENDINGS),
        f"{url}: not the address of an archive ({', '.join(_ENDINGS)}); {NAMES}",
    )
    digest = _SHA256.fullmatch(fragment)
    require(digest is not None or not fragment, f"{url}: write #sha256= and 64 digits of 0-9a-f")
    target = Path(expand_user(CACHE)) / hashlib.sha256(url.encode()).hexdigest()[:20]
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as temporary:
            file, folder = Path(temporary, "archive"), Path(temporary, "folder")
            actual = _fetch(url, address, file)
            require(
                digest is None or digest[1] == actual,
                f"{url}: the archive has the SHA-256 {actual}, not this one",
            )
            if digest is None:
                _log.info("%s: add #sha256=%s to load no other", url, actual)
            folder.mkdir()
            _unpack(url, address, file, folder)
            with contextlib.suppress(OSError):  # another process was faster
                os.rename(folder, target)
    inside = [*target.iterdir()]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else target


def _path(address: str) -> str:
    """The path of an address; empty if it is none."""
    try:
        return urllib.parse.urlsplit(address).path
    except ValueError:
        return ""


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str):
        if not newurl.startswith(HTTPS):
            raise urllib.error.URLError("a redirection to an address without https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(url: str, address: str, file: Path) -> str:
    """Writes the content of an address to a file; returns its SHA-256."""
    digest, size = hashlib.sha256(), 0
    secure = urllib.request.HTTPSHandler(context=ssl.create_default_context())
    opener = urllib.request.build_opener(secure, _OnlyHttps)
    try:
        with opener.open(address, timeout=_SECONDS) as response, file.open("wb") as out:
            while chunk := response.read(_READ):
                size += len(chunk)
                require(size <= LARGEST, f"{url}: more than {LARGEST:,} bytes")
                digest.update(chunk)
                out.write(chunk)
    except (OSError, ValueError, http.client.HTTPException) as error:  # URLError is an OSError
        reason = getattr(error, "reason", None) or error
        raise UserError(f"{url}: not in the cache, and cannot be read: {reason}") from error
    return digest.hexdigest()


def _unpack(url: str, address: str, file: Path, folder: Path) -> None:
    """Writes the files of an archive below a folder."""
    size = 0
    try:
        with _members(address, file) as files:
            for count, (name, bytes_, content) in enumerate(files):
                size += bytes_
                require(count < _FILES, f"{url}: more than {_FILES:,} files and folders")
                require(size <= LARGEST, f"{url}: unpacks to more than {LARGEST:,} bytes")
                if content is None:
                    continue
                require(is_inside(name), f"{url}: {name!r}: not a file below its folder")
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as out:
                    shutil.copyfileobj(content, out, _READ)
    except _UNREADABLE as error:
        raise UserError(f"{url}: not an archive that can be unpacked ({error})") from error


@contextlib.contextmanager
def _members(address: str, file: Path) -> Iterator[Iterator[tuple[str, int, Any]]]:
    """The name, the size and the content of each file of an archive; None for a folder's."""
    path = _path(address)
    if path.endswith(".zip"):
        with zipfile.ZipFile(file) as archive:
            open_ = lambda info: None if info.is_dir() else archive.open(info)
            yield ((i.filename, i.file_size, open_(i)) for i in archive.infolist())
        return
    with file.open("rb") as raw:
        packed = not path.endswith(".tar")
        stream: Any = _Bounded(gzip.GzipFile(fileobj=raw) if packed else raw)
        with tarfile.open(fileobj=stream, mode="r:") as archive_:
            yield ((m.name, m.size, _content(archive_, m)) for m in archive_)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> Any:
    if member.isdir():
        return None
    content = archive.extractfile(member) if member.isreg() else None
    if content is None:
        raise ValueError(f"{member.name!r} is not a file")
    return content


class _Bounded:
    """Limits the size of a read: tarfile reads a header at once, whatever size it declares."""

    def __init__(self, file: Any):
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int) -> bytes:
        if size > _READ:
            raise ValueError("a header of more than 1 MiB")
        return self._file.read(size)
