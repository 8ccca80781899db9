"""The record with which another process continues a killed one's preparation.

A builder writes what is finished into `RECORD` in its unfinished folder; `corpus.prepare` leaves
such a folder to the next process, and deletes the record of a complete one.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from common_jax.errors import UserError
from common_jax.io.atomic import replace_text

RECORD = "resume.json"
SECONDS = 10.0  # between two records; a kill loses the work since the last


def read_record(folder: Path) -> dict[str, Any]:
    """The record in an unfinished folder; empty if there is none that can be read."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return dict(json.loads((folder / RECORD).read_text("utf-8")))
    return {}


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Replaces the record atomically."""
    replace_text(folder / RECORD, json.dumps(record) + "\n")


def delete_record(folder: Path) -> None:
    """Deletes the record, and what a killed process left of it."""
    for path in folder.glob(f"{RECORD}*"):
        path.unlink()


def open_at(path: Path, size: int) -> BinaryIO:
    """A file opened for writing after its first `size` bytes; what follows them is cut off.

    Raises:
      UserError: if it is shorter, as after a crash of a system that did not keep what was synced.
    """
    file = path.open("r+b" if size else "wb")
    if file.seek(0, os.SEEK_END) < size:
        file.close()
        raise UserError(f"{path}: shorter than recorded; delete the folder to prepare it again")
    file.truncate(size)
    file.seek(size)
    return file


def sync(file: BinaryIO) -> int:
    """Writes a file to the disk; returns its size."""
    file.flush()
    os.fsync(file.fileno())
    return file.tell()
