"""The runs and sweeps in a folder or bucket."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from common_jax.deploy.format import CONFIG, MANIFEST
from common_jax.errors import UserError
from common_jax.io.json_files import read_json
from common_jax.io.paths import AnyPath, in_bucket
from common_jax.io.threads import threaded_map
from launch.trials.trials import TRIALS, list_file
from launch.watch.run import WatchedRun

_MAX_DEPTH = 6  # folders below the watched one
_MAX_RUNS = 2000
_SEARCH_SECONDS = 10.0  # minimum between two searches for new runs
_PAUSE_FACTOR = 20  # seconds of pause for each second of computing
_THREADS = 16  # for requests to a bucket


class WatchedFolder:
    """The runs and sweeps in a folder.

    Attributes:
      path: the folder.
      runs: by name, those of a sweep in its order.
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
        self._every, self._last_search, self._last_look = every, -_SEARCH_SECONDS, -every
        if not in_bucket(path) and not os.path.isdir(path):
            raise UserError(f"{path}: {'not a folder' if path.exists() else 'no such folder'}")
        self.look()
        if not self.runs:
            raise UserError(f"{path}: no run in it, nor in the folders below it")

    def pause(self, further: float = 0.0) -> float:
        """Seconds between two looks: `every`, or if longer `_PAUSE_FACTOR` times the computing
        time of the last one plus `further` seconds, such as for charts."""
        return max(self._every, _PAUSE_FACTOR * (self.busy + further))

    def look(self) -> None:
        """Reads what is new, unless the pause since the last look is not over.

        Raises:
          UserError: if a bucket cannot be read.
        """
        now, computed = time.monotonic(), time.thread_time()
        if now - self._last_look < self.pause():
            return
        if now - self._last_search >= max(_SEARCH_SECONDS, self.pause()):
            self._search()
            self._last_search = now
        if in_bucket(self.path):
            changing = [run for run in self.runs.values() if run.status.state != "finished"]
            for _ in threaded_map(WatchedRun.look, changing, _THREADS):
                pass
        else:
            for run in self.runs.values():
                run.look()
        self._last_look, self.busy = time.monotonic(), time.thread_time() - computed

    def _search(self) -> None:
        """Adds new runs, and removes deleted ones."""
        is_trial_of: dict[str, bool] = {}
        for name, is_trial in self._run_names():
            is_trial_of.setdefault(name, is_trial)
            if len(is_trial_of) > _MAX_RUNS:
                raise UserError(f"{self.path}: more than {_MAX_RUNS} runs; watch a folder in it")
        known = self.runs
        self.runs = {
            name: known.get(name) or WatchedRun(self.path / name, name, is_trial)
            for name, is_trial in is_trial_of.items()
        }

    def _run_names(self) -> Iterator[tuple[str, bool]]:
        """The names of the runs, and whether each is a trial of a sweep."""
        for folder, files in self._folders():
            here = self.path / folder if folder else self.path
            listed = list_file(here / TRIALS)
            if CONFIG in files:
                if MANIFEST not in files:
                    yield folder or ".", here.parent.name == TRIALS
            elif listed.name in files:
                for name in _trial_names(listed):
                    yield f"{folder}/{TRIALS}/{name}".lstrip("/"), True

    def _folders(self) -> Iterator[tuple[str, set[str]]]:
        """The folders, relative to the watched one, each with the names of its files; on a disk
        without those inside runs."""
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
            if CONFIG in files or relative.count(os.sep) >= _MAX_DEPTH - 1:
                names.clear()
            names[:] = sorted(
                name
                for name in names
                if not name.startswith((".", "__")) and not self._leads_back(Path(folder, name))
            )
            yield relative.replace(os.sep, "/"), set(files)

    def _leads_back(self, folder: Path) -> bool:
        """Whether a folder is a link to one that contains a folder on the way to it: above the
        watched folder, or in a cycle."""
        if not folder.is_symlink():
            return False
        target, depth = folder.resolve(), len(folder.relative_to(self.path).parts)
        return any(above.resolve().is_relative_to(target) for above in [*folder.parents][:depth])


def _trial_names(file: AnyPath) -> list[str]:
    """The names of the trials in a sweep's list; none if the file is not such a list."""
    try:
        names = read_json(file).get("names", list[str])
    except UserError:
        return []
    return [name for name in names if name and "/" not in name and name not in (".", "..")]
