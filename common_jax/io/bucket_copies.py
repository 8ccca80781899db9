"""Copies of files and folders of a bucket on this machine."""

import contextlib
import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from common_jax.errors import UserError
from common_jax.io import checksums, lock
from common_jax.io.atomic import replace_bytes, write_json
from common_jax.io.paths import AnyPath, as_path, cache_of

_CONCURRENT = 8
_RECORD = ".copied.json"  # generations and checksums of the copies

_log = logging.getLogger(__name__)


def copy_of(path: str | AnyPath, key: str) -> Path:
    """The copy of `common_jax.io.storage.local_copy`."""
    source = as_path(path)
    folder = cache_of(source)
    target = folder / source.name
    record_file = folder / _RECORD
    with lock.held(folder / ".lock"):
        # The names of the files, "" for an object at the path itself.
        files = [source] if source.is_file() else checksums.files_in(source)
        if not files:
            raise UserError(f"{key}={path}: nothing there" if key else f"{path}: nothing there")
        names = ["" if file == source else file.relative_to(source).as_posix() for file in files]

        # Copy those that have changed.
        record = _read_record(record_file)
        with ThreadPoolExecutor(_CONCURRENT) as pool:
            copied = pool.map(lambda file, name: _copy(file, name, target, record), files, names)
            record = dict(zip(names, copied, strict=True))

        # Delete the others' copies.
        for file in [] if target.is_file() else checksums.files_in(target):
            if file.relative_to(target).as_posix() not in record:
                file.unlink()
        write_json(record_file, record)
    return target


def _copy(source: AnyPath, name: str, target: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Copies an object unless its copy is up to date; returns its generation and checksum."""
    # The generation of an intact copy.
    file = target / name if name else target
    known = record.get(name, {})
    generation = bytes.fromhex(known.get("generation", ""))
    if generation and not (file.is_file() and checksums.describe(file) == known["content"]):
        generation = b""

    # The object, if it has another.
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
