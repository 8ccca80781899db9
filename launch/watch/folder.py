"""The runs and sweeps in a folder or bucket."""

import os
import time
from collections.abc import Iterator
from typing import Any, cast

from common_jax.errors import UserError
from common_jax.export.format import CONFIG, MANIFEST
from common_jax.io.json_files import read_json
from common_jax.io.paths import AnyPath, in_bucket
from common_jax.io.threads import threaded_map
from launch.trials.trials import TRIALS, list_file
from launch.watch.run import WatchedRun

_DEEPEST = 6  # folders below the watched one
_MOST = 2000  # runs
_SEARCH_SECONDS = 10.0  # between two searches for new runs
_BUSY = 20  # a part of its time, in which it may compute
_THREADS = 16  # for requests to a bucket


class WatchedFolder:
    """The runs and sweeps in a folder.

    Attributes:
      path: the folder.
      runs: by their names, those of a sweep in its order.
      busy: seconds of computing that the last look took.
    """

    def __init__(self, path: AnyPath, every: float):
        """
        Args:
          every: the shortest time between two looks, in seconds.

        Raises:
          UserError: if the folder is missing, or has no run.
        """
        self.path, self.runs, self.busy = path, dict[str, WatchedRun](), 0.0
        self._every, self._searched, self._looked = every, -_SEARCH_SECONDS, -every
        if not in_bucket(path) and not os.path.isdir(path):
            raise UserError(f"{path}: {'not a folder' if path.exists() else 'no such folder'}")
        self.look()
        if not self.runs:
            raise UserError(f"{path}: no run in it, nor in the folders below it")

    def pause(self, further: float = 0.0) -> float:
        """The time between two looks, which with `further` seconds compute in at most a twentieth
        of it."""
        return max(self._every, _BUSY * (self.busy + further))

    def look(self) -> None:
        """Reads what is new, unless the last look was just now.

        Raises:
          UserError: by a bucket.
        """
        now, computed = time.monotonic(), time.thread_time()
        if now - self._looked < self.pause():
            return
        if now - self._searched >= max(_SEARCH_SECONDS, self.pause()):
            self._search()
            self._searched = now
        if in_bucket(self.path):
            changing = [run for run in self.runs.values() if run.status.state != "finished"]
            for _ in threaded_map(WatchedRun.look, changing, _THREADS):
                pass
        else:
            for run in self.runs.values():
                run.look()
        self._looked, self.busy = time.monotonic(), time.thread_time() - computed

    def _search(self) -> None:
        """Finds new runs, and forgets deleted ones."""
        found: dict[str, bool] = {}
        for name, is_trial in self._names():
            found.setdefault(name, is_trial)
            if len(found) > _MOST:
                raise UserError(f"{self.path}: more than {_MOST} runs; watch a folder in it")
        known = self.runs
        self.runs = {
            name: known.get(name) or WatchedRun(self.path / name, name, is_trial)
            for name, is_trial in found.items()
        }

    def _names(self) -> Iterator[tuple[str, bool]]:
        """The names of the runs, and whether each is a trial of a sweep."""
        for folder, files in self._folders():
            here = self.path / folder if folder else self.path
            listed = list_file(here / TRIALS)
            if CONFIG in files:
                if MANIFEST not in files:
                    yield folder or ".", here.parent.name == TRIALS
            elif listed.name in files:
                for name in _listed(listed):
                    yield f"{folder}/{TRIALS}/{name}".lstrip("/"), True

    def _folders(self) -> Iterator[tuple[str, set[str]]]:
        """The names of folders, relative to the watched one, with those of their files; folders in
        those of runs are left out on a disk."""
        if in_bucket(self.path):
            folders: dict[str, set[str]] = {"": set()}
            for name in cast(Any, self.path).key.below():
                folder, _, file = name.rpartition("/")
                folders.setdefault(folder, set()).add(file)
            yield from folders.items()
            return
        for folder, names, files in os.walk(self.path, followlinks=True):
            relative = os.path.relpath(folder, self.path)
            relative = "" if relative == "." else relative
            if CONFIG in files or relative.count(os.sep) >= _DEEPEST - 1:
                names.clear()
            names[:] = sorted(name for name in names if not name.startswith((".", "__")))
            yield relative.replace(os.sep, "/"), set(files)


def _listed(file: AnyPath) -> list[str]:
    """The names of a sweep's trials; none of another file."""
    try:
        names = read_json(file).get("names", list[str])
    except UserError:
        return []
    return [name for name in names if name and "/" not in name and name not in (".", "..")]
