"""The folder of a run: its files, its lock, and how it is written.

docs/files.md lists its files.
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
from common_jax.training.example_results import Results, read_tsv, to_tsv
from common_jax.training.multihost import first_process_only, gather_from_all
from common_jax.training.task import Scores, Task

VERSION = 1  # of config.json
SEED = "train.seed"  # the only field in which repeated runs differ
_RESULT = {  # fields of every result.json
    **{"steps": int, "parameters": int, "wall_seconds": float, "devices": list[str]},
    **{"metrics": dict[str, dict[str, float]], "versions": dict[str, str]},
}
_EXAMPLES = ".examples.tsv"
_NETWORK_SECONDS = 60  # for which NFS may cache a folder's content

_locks: dict[str, Any] = {}  # of this process, by folder; released when it ends


class Workdir:
    """The folder of a run, or of an export, which has config and vocabulary in the same places.

    All processes of a run call the methods that write, and the first one writes.
    """

    def __init__(self, path: str | Path, export: Export | None = None):
        """
        Args:
          export: the export in it, if already read.
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
        """Creates or resumes this run in the folder, and locks it against other processes.

        The lock ends with `release`, or with this process.

        Raises:
          UserError: if the folder has another run or other files, cannot be written, is being
            trained in, or is not visible to all processes of this run.
        """
        holder = self._claim(config)
        gather_from_all(lambda: self._require_claimed(holder))

    @first_process_only
    def _claim(self, config: Any) -> str:
        """Claims the folder in the first process; returns the content of the lock file."""
        self._require_run()
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock()
        try:
            self.require(config)  # under the lock
            with writing(self.path):
                write_json(self._config, {"version": VERSION, "config": to_mapping(config)})
                return (self.path / "lock").read_text()
        except BaseException:
            self.release()
            raise

    def _require_claimed(self, holder: str) -> None:
        """Checks that this is the folder that another process of the run has claimed.

        Raises:
          UserError: if it is not, after waiting for a network disk.
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
        """Raises UserError if the folder has another run, or files of no run."""
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
        lock = _locks.pop(os.path.realpath(self.path), None)
        if lock is not None:
            lock.release()

    @property
    def trained_by(self) -> str:
        """The other process that is training here; "" if there is none."""
        if os.path.realpath(self.path) in _locks or not (self.path / "lock").exists():
            return ""
        lock, holder = self._try_lock()
        if lock is not None:
            lock.release()
        return holder

    @functools.cached_property
    def export(self) -> Export | None:
        """The export in the folder; None for a run.

        Raises:
          UserError: if it is damaged, or of a newer version.
        """
        return Export(self.path) if Export.is_at(self.path) else None

    def _lock(self) -> None:
        key = os.path.realpath(self.path)
        if key in _locks:  # resumes a run interrupted in this process, such as a notebook
            return
        lock, holder = self._try_lock()
        if lock is None:
            raise UserError(
                f"{self.path} is being trained by {holder}; wait for it, "
                "or choose another --workdir"
            )
        _locks[key] = lock
        (self.path / "lock").write_text(f"process {os.getpid()} on {socket.gethostname()}\n")

    def _try_lock(self) -> tuple[Any, str]:
        """The acquired lock, or None and its holder."""
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
          UserError: if the folder is not a run's, or of an unknown version.
        """
        if self.export is None and not self._config.exists():
            raise UserError(f"{self.path}: not the folder of a run (no config.json)")
        saved = read_json(self._config)
        version, config = saved.get("version", int), saved.get("config", dict)
        if version != VERSION:
            raise UserError(f"{self._config}: version {version}; this code reads {VERSION}")
        return config

    def read_task(self, test: str | Path | None = None, **data: Any) -> Task:
        """The run's task, with its vocabulary and without its data.

        Args, Raises: as `make_task`; also for a broken vocabulary.
        """
        task = self.make_task(test, **data)
        task.read_vocabulary(self.vocabulary)
        return task

    def make_task(self, test: str | Path | None = None, **data: Any) -> Task:
        """The run's task, from its config.

        Args:
          test: a file in the run's data format to use as its test split.
          **data: fields of `data` to change.

        Raises:
          UserError: as `read_config`; for `test` with a run whose data are not files, or a field
            that the run's data do not have.
        """
        values = self.read_config()
        if test is not None and values.get("data", {}).get("source") != "files":
            raise UserError(
                f"{self.path}: its data.source is not 'files', so {test} cannot be evaluated"
            )
        with error_context(self._config):
            kind = task_class(str(values.get("task", "")))
            if test is not None:  # an absolute path is independent of data.dir
                data = {**data, **kind.other_test_fields, "test": os.path.abspath(test)}
            if data:
                values["data"] = {**values["data"], **data}
            return kind(from_values(kind.config_class, values))

    @first_process_only
    def write_vocabulary(self, task: Task) -> None:
        """Saves the vocabulary, so that the run can be used without its corpus."""
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
        """Writes eval/<split>.json, the examples' results, and predictions in the task's format."""
        folder, files = self.path / "eval", scored.files
        if scored.results:
            files = files | {_EXAMPLES: to_tsv(scored.results)}
        with writing(folder):
            folder.mkdir(exist_ok=True)
            for ending, text in files.items():
                replace_text(folder / f"{split}{ending}", text)
            write_json(folder / f"{split}.json", {**scored.metrics, **scored.notes})

    def read_scored(self, split: str) -> Node:
        """A split's metrics and notes, as `write_scored` wrote them.

        Raises:
          UserError: if the split has not been scored, or the file is no JSON object.
        """
        scored = self.scored(split)
        if scored is None:
            file = self.path / "eval" / f"{split}.json"
            raise UserError(f"{file}: not there; score {split} of that run first")
        return scored

    def scored(self, split: str) -> Node | None:
        """As `read_scored`, or None if the split has not been scored."""
        file = self.path / "eval" / f"{split}.json"
        if not file.exists():
            return None
        node = read_json(file)
        if type(node.value) is not dict:
            raise UserError(f"{file}: no scores; score {split} of that run again")
        return node

    def example_results(self, split: str) -> Results | None:
        """The examples' results, as `write_scored` wrote them; None if there are none, as in older
        runs.

        Raises:
          UserError: as `common_jax.training.example_results.read_tsv`.
        """
        file = self.path / "eval" / f"{split}{_EXAMPLES}"
        return read_tsv(file) if file.exists() else None

    def right_answers(self, split: str) -> tuple[int, int] | None:
        """The numbers of right answers and of examples in the score of a split; None without them.

        Raises:
          UserError: as `read_scored`, or for invalid counts.
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
        """Writes result.json, which marks the run as finished."""
        with writing(self.path):
            write_json(self.result, result)

    def read_result(self) -> dict[str, Any] | None:
        """result.json, or None if the run is not finished.

        Raises:
          UserError: if it lacks a required field.
        """
        if not self.result.exists():
            return None
        node = read_json(self.result)
        for name, kind in _RESULT.items():
            node.get(name, kind)
        for name, kind in {"best_step": int, "command": str}.items():
            node.get(name, kind, default=kind())
        return node.value

    @first_process_only
    def finished(self, config: Any) -> dict[str, Any] | None:
        """result.json if the run needs no more steps; else None."""
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


def result_fields(config: Any) -> dict[str, Any]:
    """The config fields that a run's result can depend on, by their full names."""
    irrelevant = ("mesh.", "paper.", "data.cache_dir", "model.unroll")
    fields = flat(to_mapping(config))
    return {key: value for key, value in fields.items() if not key.startswith(irrelevant)}


def devices(result: Mapping[str, Any]) -> str:
    """The devices of a result's run, as in "8 NVIDIA H100"."""
    names = result.get("devices", [])
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "?"


def _identity(config: Any) -> dict[str, Any]:
    """The config fields that identify a run: without its length, intervals, mesh, and the paper."""
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in flat(to_mapping(config)).items()
        if not key.startswith(("mesh.", "paper."))
        if key not in ("train.steps", "model.unroll") and not key.endswith("_every")
    }


def _resuming(differing: Sequence[str], old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The overrides by which this config resumes the old run; "" if other fields are needed."""
    if any(key not in old or key not in new or key.endswith(".name") for key in differing):
        return ""
    overrides = (shlex.quote(f"--config.{key}={old[key]}") for key in differing)
    return f"{' '.join(overrides)} resumes it, or "
