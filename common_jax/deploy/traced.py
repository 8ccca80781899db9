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

    They are found by the text of the lowered program; an entry of the index names this program. It
    is used if the modules loaded before the function was traced, and those that tracing loaded,
    have the same source.
    """

    def __init__(self, index: Executables, sources: Mapping[str, str], params: Params):
        self._index = index
        self._sources = sources
        self._params = params

    @classmethod
    def of(cls, task: Task, params: Params, **static: Any) -> "TracedExecutables | None":
        """None if there are no `Executables`, or the source of a module is unknown.

        Args:
          static: arguments of the function.
        """
        if Executables.of(b"", params) is None or (before := sources()) is None:
            return None
        config = to_mapping(task.config)
        options = sorted(task.decoding.items()), sorted(static.items())
        identity = config, options, sorted(vocabulary_files(task).items()), sorted(before.items())
        index = Executables.of(repr(identity).encode(), params)
        return None if index is None else cls(index, before, params)

    def compiled(self, shapes: Any, lower: Callable[[], Any]) -> Any:
        """The executable for these shapes: that of the index, or of the program which `lower`
        returns, kept unless the disk or the platform prevents it."""
        if (kept := self._load(shapes)) is not None:
            return kept
        lowered = lower()
        executables = Executables.of(lowered.as_text().encode(), self._params)
        assert executables is not None
        executable = executables.compiled(shapes, lambda: lowered)

        # an entry, unless a source has changed meanwhile
        after = sources() or {}
        if executables.file(shapes).exists() and self._sources.items() <= after.items():
            loaded = dict(after.items() - self._sources.items())
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


def sources() -> dict[str, str] | None:
    """The SHA-256 of the source file of each loaded module.

    None if it may differ from what was loaded: if a file has been changed since this process began,
    or cannot be read; or if there is none, as in a notebook.
    """
    if getattr(sys.modules["__main__"], "__file__", None) is None:
        return None
    now = logging.makeLogRecord({})
    began = now.created - now.relativeCreated / 1000  # when Python loaded `logging`
    files = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]}
    with contextlib.suppress(OSError):
        digests = {file: _sha256(file) for file in files if file.endswith(".py")}
        if all(os.stat(file).st_mtime < began for file in digests):
            return digests
    return None


def _sha256(file: str) -> str:
    return _sha256_of(file, os.stat(file).st_mtime_ns)


@functools.cache
def _sha256_of(file: str, changed: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
