"""The folder that a run leaves behind: what is in it, whose it is, how it is written.

The contract is in the README ("What a run leaves behind").
"""

import contextlib
import functools
import os
import shlex
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.config import from_values
from common_jax.errors import UserError, error_context
from common_jax.export.format import Export
from common_jax.fields import to_mapping
from common_jax.io.atomic import replace_text, write_json, writing
from common_jax.io.json_files import Node, read_json
from common_jax.old_names import CLASSES
from common_jax.training.config import task_class
from common_jax.training.examples import Results, read_tsv, to_tsv
from common_jax.training.multihost import first_process_only, gather_from_all
from common_jax.training.task import Scores, Task

VERSION = 1  # of config.json
_RESULT = {  # what every result.json has
    **{"steps": int, "parameters": int, "wall_seconds": float, "devices": list[str]},
    **{"metrics": dict[str, dict[str, float]], "versions": dict[str, str]},
}
_EXAMPLES = ".examples.tsv"
_NETWORK_SECONDS = 60  # for which NFS may hold what it knew of a folder

_held: dict[str, Any] = {}  # the locks of this process, by folder; they end with it


class Workdir:
    """A run's folder; or an export's, which has its config and vocabulary in the same places.

    Of several processes that train together all call the methods that write, and the first writes.
    """

    def __init__(self, path: str | Path, export: Export | None = None):
        """
        Args:
          export: what is known to be there, so that it is not looked at again.
        """
        self.path = Path(path)
        if export is not None:
            self.export = export
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.vocabulary = self.path / "vocabulary"
        self.result = self.path / "result.json"
        self._config = self.path / "config.json"

    def claim(self, config: Any) -> None:
        """Makes the folder this run's, or finds that it is; no other run may train in it then.

        The claim ends with `release`, or with this process, however that ends.

        Raises:
          UserError: if it holds another run, or something else, or cannot be written, or another
            run trains in it now; or if a process of this run does not see it.
        """
        holder = self._claim(config)
        gather_from_all(lambda: self._require_claimed(holder))

    @first_process_only
    def _claim(self, config: Any) -> str:
        """The claim of the first process, and what it has written into the lock's file."""
        self._require_run()
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock()
        try:
            self.require(config)  # nobody changes it now
            with writing(self.path):
                write_json(self._config, {"version": VERSION, "config": to_mapping(config)})
                return (self.path / "lock").read_text()
        except BaseException:
            self.release()
            raise

    def _require_claimed(self, holder: str) -> None:
        """Checks that this is the folder that another process of the run has claimed.

        Raises:
          UserError: if it is not seen here, though a network's disk is given some time.
        """
        deadline = time.monotonic() + _NETWORK_SECONDS
        while True:
            with contextlib.suppress(OSError):
                if (self.path / "lock").read_text() == holder:
                    return
            if time.monotonic() > deadline:
                raise UserError(
                    f"{self.path}: not the folder that the first process sees there; choose a "
                    "--workdir on a disk that all machines share"
                )
            time.sleep(0.2)

    def require(self, config: Any) -> None:
        """Checks that the folder is this run's, or nobody's.

        Raises:
          UserError: if it holds another run, or something else.
        """
        self._require_run()
        if self._config.exists():
            values = self.read_config()
            task = str(values.get("task"))
            if CLASSES.get(task, task) != config.task:
                raise UserError(
                    f"{self.path} holds a run of another task, {task}: choose another --workdir"
                )
            with error_context(self._config):
                old = _identity(from_values(type(config), values))
            new = _identity(config)
            if differing := sorted(k for k in {*old, *new} if old.get(k) != new.get(k)):
                raise UserError(
                    f"{self.path} holds another run; it differs in {', '.join(differing)}: "
                    f"{_resuming(differing, old, new)}choose another --workdir"
                )

    def _require_run(self) -> None:
        if Export.is_at(self.path):
            raise UserError(f"{self.path} holds an export: choose another --workdir")
        if self._config.exists() or not self.path.exists():
            return
        if not self.path.is_dir() or any(p.name != "lock" for p in self.path.iterdir()):
            raise UserError(f"{self.path} is not the folder of a run: choose another --workdir")

    def release(self) -> None:
        """Lets other processes train here."""
        lock = _held.pop(os.path.realpath(self.path), None)
        if lock is not None:
            lock.release()

    @property
    def trained_by(self) -> str:
        """Which process trains here now; "" if none does, or this one."""
        if os.path.realpath(self.path) in _held or not (self.path / "lock").exists():
            return ""
        lock, holder = self._try_lock()
        if lock is not None:
            lock.release()
        return holder

    @functools.cached_property
    def export(self) -> Export | None:
        """What the folder is if it is no run's.

        Raises:
          UserError: if it is damaged, or of a newer version.
        """
        return Export(self.path) if Export.is_at(self.path) else None

    def _lock(self) -> None:
        key = os.path.realpath(self.path)
        if key in _held:  # a run broken off in this process, in a notebook say, is taken up again
            return
        lock, holder = self._try_lock()
        if lock is None:
            raise UserError(
                f"{self.path} is being trained by {holder}; wait for it, "
                "or choose another --workdir"
            )
        _held[key] = lock
        (self.path / "lock").write_text(f"process {os.getpid()} on {socket.gethostname()}\n")

    def _try_lock(self) -> tuple[Any, str]:
        """The lock, taken, or None and who has it."""
        from filelock import FileLock, Timeout

        path = self.path / "lock"
        holder = path.read_text(errors="replace") if path.exists() else ""
        lock = FileLock(path)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            path.write_text(holder)  # the attempt may have emptied it
            return None, holder.strip() or "another process"
        return lock, ""

    def read_config(self) -> dict[str, Any]:
        """config.json as nested values.

        Raises:
          UserError: if the folder is not a run's, or of a version that this code does not know.
        """
        if self.export is None and not self._config.exists():
            raise UserError(f"{self.path}: not the folder of a run (no config.json)")
        saved = read_json(self._config)
        version, config = saved.get("version", int), saved.get("config", dict)
        if version != VERSION:
            raise UserError(f"{self._config}: version {version}; this code reads {VERSION}")
        return config

    def read_task(self, test: str | Path | None = None) -> Task:
        """The run's task, with its vocabulary and without its data.

        Args, Raises: as `make_task`; also for a broken vocabulary.
        """
        task = self.make_task(test)
        task.read_vocabulary(self.vocabulary)
        return task

    def make_task(self, test: str | Path | None = None) -> Task:
        """The run's task, by its config alone.

        Args:
          test: a file of the form of the run's own, to be its test split.

        Raises:
          UserError: as `read_config`; or if `test` is given to a run whose data are not files.
        """
        values = self.read_config()
        if test is not None:
            if values.get("data", {}).get("source") != "files":
                raise UserError(f"{self.path}: its data are not files, hence {test} cannot be")
            values["data"]["test"] = os.path.abspath(test)  # though data.dir is another folder
        with error_context(self._config):
            kind = task_class(str(values.get("task", "")))
            return kind(from_values(kind.config_class, values))

    @first_process_only
    def write_vocabulary(self, task: Task) -> None:
        """Keeps the vocabulary, so that the run can be used without its corpus."""
        partial = self.path / "vocabulary.partial"
        with writing(self.path):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            try:
                task.write_vocabulary(partial)
                self.vocabulary.mkdir(exist_ok=True)
                for path in partial.iterdir():
                    os.replace(path, self.vocabulary / path.name)
            finally:
                shutil.rmtree(partial, ignore_errors=True)

    @first_process_only
    def write_scored(self, split: str, scored: Scores) -> None:
        """eval/<split>.json, each example's result and the predictions in the task's own format."""
        folder, files = self.path / "eval", scored.files
        if scored.results:
            files = files | {_EXAMPLES: to_tsv(scored.results)}
        with writing(folder):
            folder.mkdir(exist_ok=True)
            for ending, text in files.items():
                replace_text(folder / f"{split}{ending}", text)
            write_json(folder / f"{split}.json", {**scored.metrics, **scored.notes})

    def read_scored(self, split: str) -> Node:
        """What `write_scored` wrote of a split's metrics and notes.

        Raises:
          UserError: if the split has not been scored, or the file is no longer an object of JSON.
        """
        found = self.scored(split)
        if found is None:
            file = self.path / "eval" / f"{split}.json"
            raise UserError(f"{file}: not there; score {split} of that run first")
        return found

    def scored(self, split: str) -> Node | None:
        """The same, or None where the split has not been scored."""
        file = self.path / "eval" / f"{split}.json"
        if not file.exists():
            return None
        found = read_json(file)
        if type(found.value) is not dict:
            raise UserError(f"{file}: no scores; score {split} of that run again")
        return found

    def example_results(self, split: str) -> Results | None:
        """Each example's result, as `write_scored` wrote it; None where the score of the split has
        none, as of older runs.

        Raises:
          UserError: as `common_jax.training.examples.read_tsv`.
        """
        file = self.path / "eval" / f"{split}{_EXAMPLES}"
        return read_tsv(file) if file.exists() else None

    def right_answers(self, split: str) -> tuple[int, int] | None:
        """How many right answers of how many the score of a split has counted; None if it has not.

        Raises:
          UserError: as `read_scored`, or for counts that cannot be.
        """
        scored = self.read_scored(split)
        if not scored.value.keys() >= {"correct", "examples"}:
            return None
        right, examples = (scored.get(name, int) for name in ("correct", "examples"))
        if not 0 <= right <= examples > 0:
            raise UserError(f"{scored.place}: {right} of {examples} answers are right")
        return right, examples

    @first_process_only
    def write_result(self, result: Mapping[str, Any]) -> None:
        """result.json: the run is over."""
        with writing(self.path):
            write_json(self.result, result)

    def read_result(self) -> dict[str, Any] | None:
        """result.json, or None while the run is not over.

        Raises:
          UserError: if it lacks what every result has.
        """
        if not self.result.exists():
            return None
        found = read_json(self.result)
        for name, kind in _RESULT.items():
            found.get(name, kind)
        for name, kind in {"best_step": int, "command": str}.items():
            found.get(name, kind, default=kind())
        return found.value

    @first_process_only
    def finished(self, config: Any) -> dict[str, Any] | None:
        """result.json if the run needs no more steps than it has; else None."""
        result = self.read_result()
        over = result and (result["steps"] >= config.train.steps or result.get("stopped_early"))
        return result if over else None


def flat(config: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """A config's values by the fields' full names."""
    fields: dict[str, Any] = {}
    for name, value in config.items():
        key = f"{at}{name}"
        fields.update(flat(value, f"{key}.") if isinstance(value, dict) else {key: value})
    return fields


def devices(result: Mapping[str, Any]) -> str:
    """What a result's run was trained on, as in "8 NVIDIA H100"."""
    names = result.get("devices", [])
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "?"


def _identity(config: Any) -> dict[str, Any]:
    """What makes a run this run: its config without how far, how often and on what it runs, and
    without what a paper says."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in flat(to_mapping(config)).items()
        if not key.startswith(("mesh.", "paper."))
        if key not in ("train.steps", "model.unroll") and not key.endswith("_every")
    }


def _resuming(differing: Sequence[str], old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The overrides by which this config resumes the old run; "" where other fields are needed."""
    if any(key not in old or key not in new or key.endswith(".name") for key in differing):
        return ""
    overrides = (shlex.quote(f"--config.{key}={old[key]}") for key in differing)
    return f"{' '.join(overrides)} resumes it, or "
