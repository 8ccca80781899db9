"""Checksums of the files in a folder, to detect damage."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any

from common_jax.io.atomic import replace_text
from common_jax.io.folder import PARTIAL
from common_jax.io.paths import AnyPath, as_path, in_bucket

NAME = "checksums.json"


def seal(folder: AnyPath, leave: Collection[str] = ()) -> None:
    """Writes checksums.json, or adds the files that it does not list yet.

    Args:
      folder: its files, at any depth, have their final content.
      leave: names of files, at any depth, to skip.
    """
    # The names of the new files.
    files = _read(folder) if (folder / NAME).exists() else {}
    names = sorted(path.relative_to(folder).as_posix() for path in files_in(folder))
    names = [name for name in names if not name.endswith(PARTIAL)]  # left by a killed process
    new = [n for n in names if n not in files and PurePosixPath(n).name not in {*leave, NAME}]

    # Their checksums.
    with ThreadPoolExecutor() as pool:  # hashing lets other threads run
        files.update(zip(new, pool.map(lambda name: describe(folder / name), new), strict=True))
    content = json.dumps({"sha256": _digest(files), "files": files}, indent=1)
    replace_text(folder / NAME, content + "\n")


def files_in(folder: AnyPath) -> list[AnyPath]:
    """The files in a folder, at any depth."""
    paths = folder.rglob("*")
    return [*paths] if in_bucket(folder) else [path for path in paths if path.is_file()]


def digests(folder: AnyPath) -> dict[str, str]:
    """The SHA-256 of each file of a sealed folder, by name."""
    return {name: entry["sha256"] for name, entry in _read(folder).items()}


def find_damage(folder: AnyPath, under: str = "", listed: Iterable[str] = ()) -> str | None:
    """The first damage of a sealed folder, by file name; None if there is none.

    Files that checksums.json does not list are ignored, except those of `listed`.

    Args:
      folder: the sealed folder, whose content may have changed in any way.
      under: checks only files whose name has this prefix.
      listed: names of files and folders whose files must all have a checksum.

    Raises:
      PermissionError: if a file cannot be read, which is no evidence of damage.
    """
    # The list of files.
    if not folder.is_dir():
        return "a file, not a folder" if folder.exists() else "missing"
    if not any(folder.iterdir()):
        return "an empty folder"
    try:
        files = _read(folder)
    except PermissionError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        return f"{NAME}: {_reason(error)}"

    # Files that it does not list.
    candidates = (path for name in listed for path in (folder / name, *files_in(folder / name)))
    present = {path.relative_to(folder).as_posix() for path in candidates if path.is_file()}
    if unlisted := sorted(present - files.keys()):
        return f"{unlisted[0]}: has no checksum"

    # Files with another content.
    names = sorted(name for name in files if name.startswith(under))
    with ThreadPoolExecutor() as pool:
        wrong = pool.map(lambda name: _difference(folder / name, files[name]), names)
        return next((f"{n}: {how}" for n, how in zip(names, wrong, strict=True) if how), None)


def _read(folder: AnyPath) -> dict[str, Any]:
    """The entries by file name; raises ValueError or RecursionError if it is damaged."""
    if (folder / NAME).exists() and not (folder / NAME).is_file():  # a pipe would never end
        raise ValueError
    saved = json.loads((folder / NAME).read_text(encoding="utf-8"))
    if not (isinstance(saved, dict) and isinstance(saved.get("files"), dict)):
        raise ValueError
    files = saved["files"]
    entry_types = {"bytes": int, "sha256": str}
    for entry in files.values():
        if not isinstance(entry, dict) or {k: type(v) for k, v in entry.items()} != entry_types:
            raise ValueError
    if not all(map(is_inside, files)) or _digest(files) != saved.get("sha256"):
        raise ValueError
    return files


def is_inside(name: str) -> bool:
    """Whether a name, possibly from an untrusted file, stays inside the folder."""
    components = PurePosixPath(name).parts
    try:
        valid = "\0" not in name and bool(os.fsencode(name))
    except UnicodeEncodeError:
        valid = False
    return valid and bool(components) and not {"/", ".."} & {*components}


def _digest(files: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A file's size in bytes and the SHA-256 of its content."""
    with as_path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.seek(0, os.SEEK_END), "sha256": digest}


def describe_folder(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The number of a folder's entries and the SHA-256 of their names and sizes."""
    with os.scandir(path) as entries:
        sizes = sorted((entry.name, entry.stat().st_size) for entry in entries)
    digest = hashlib.sha256(json.dumps(sizes).encode()).hexdigest()
    return {"entries": len(sizes), "sha256": digest}


def _difference(path: AnyPath, expected: dict[str, Any]) -> str | None:
    try:
        if not in_bucket(path):  # where it would be read as a whole
            status = path.stat()
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                return "neither a file nor a folder"
            if path.is_file() and status.st_size != expected["bytes"]:
                return f"{status.st_size:,} bytes, not {expected['bytes']:,}"
        return None if describe(path) == expected else "not the bytes that were saved"
    except PermissionError:
        raise
    except OSError as error:
        return _reason(error)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "missing"
    if isinstance(error, OSError):
        return os.strerror(error.errno or errno.EIO)
    return "damaged"
