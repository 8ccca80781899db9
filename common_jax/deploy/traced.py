"""Executables of a task's functions, which an index finds without tracing them again.

To trace and lower a model takes as long as to translate hundreds of sentences. The index names the
lowered program by all that determines it: the task, the shapes and the source of loaded modules.
"""

import contextlib
import functools
import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from common_jax.deploy.executables import Executables
from common_jax.fields import to_mapping
from common_jax.io.atomic import replace_text
from common_jax.training.task import Params, Task, vocabulary_files


class TracedExecutables:
    """The executables of a function of a task for arrays of different shapes, as `Executables`.

    They are those of the lowered program, which an entry of the index names. The entry is used if
    the modules loaded before the function was traced, and those that tracing loaded, have the same
    source.
    """

    def __init__(self, index: Executables, sources: Mapping[str, str], params: Params):
        self._index = index
        self._sources = sources
        self._params = params

    @classmethod
    def of(cls, task: Task, params: Params, **static: Any) -> "TracedExecutables | None":
        """None if there are no `Executables`, or no temporary files.

        Args:
          static: arguments of the function.
        """
        all_functions = Executables.of(b"", params)
        if all_functions is None:
            return None
        with contextlib.suppress(OSError):
            files = sources()
            mappings = task.decoding, static, vocabulary_files(task), files
            items = [sorted(values.items()) for values in mappings]
            identity = all_functions.folder.name, to_mapping(task.config), items
            name = hashlib.sha256(repr(identity).encode()).hexdigest()
            return cls(all_functions.beside(name), files, params)
        return None

    def compiled(self, shapes: Any, lower: Callable[[], Any]) -> Any:
        """The executable for these shapes: that of the index, or of the program which `lower`
        returns, kept unless the disk or the platform prevents it."""
        if self._sources and (kept := self._load(shapes)) is not None:
            return kept
        lowered = lower()
        executables = Executables.of(lowered.as_text().encode(), self._params)
        assert executables is not None
        executable = executables.compiled(shapes, lambda: lowered)

        # an entry, unless a source is unknown or has changed
        before = self._sources.items()
        after = sources().items()
        if before and before <= after and executables.file(shapes).exists():
            loaded = dict(after - before)
            entry = json.dumps({"executables": executables.folder.name, "loaded": loaded})
            with contextlib.suppress(OSError):
                self._index.folder.mkdir(parents=True, exist_ok=True)
                replace_text(self._index.file(shapes), entry)
        return executable

    def _load(self, shapes: Any) -> Any:
        """The executable that the index names; None if there is none."""
        with contextlib.suppress(Exception):  # a damaged file raises many kinds
            file = self._index.file(shapes)
            entry = json.loads(file.read_text())
            os.utime(file)
            if all(_sha256(path) == digest for path, digest in entry["loaded"].items()):
                return self._index.beside(entry["executables"]).load(shapes)
        return None


def sources() -> dict[str, str]:
    """The SHA-256 of the source file of each loaded module.

    Empty if one is unknown: if a file has been changed since this process began, and so may differ
    from what was loaded; if it cannot be read; or if there is none, as in a notebook.
    """
    if getattr(sys.modules["__main__"], "__file__", None) is None:
        return {}
    now = logging.makeLogRecord({})
    began = now.created - now.relativeCreated / 1000  # when Python loaded `logging`
    files = {str(getattr(module, "__file__", None)) for module in [*sys.modules.values()]}
    with contextlib.suppress(OSError):
        digests = {file: _sha256(file) for file in files if file.endswith(".py")}
        if all(os.stat(file).st_mtime < began for file in digests):
            return digests
    return {}


def _sha256(file: str) -> str:
    return _sha256_of(file, os.stat(file).st_mtime_ns)


@functools.cache
def _sha256_of(file: str, changed: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
