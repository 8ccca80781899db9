"""The folder that a run leaves behind: what is in it, whose it is, how it is written.

The contract is in the README ("What a run leaves behind").
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.training.config import from_mapping, task_class, to_json
from common_jax.training.task import Scored, Task

VERSION = 1  # of config.json


class Workdir:
    """A run's folder."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.checkpoints = self.path / "checkpoints"
        self.metrics = self.path / "metrics.jsonl"
        self.vocabulary = self.path / "vocabulary"
        self.result = self.path / "result.json"
        self._config = self.path / "config.json"

    def claim(self, config: Any) -> None:
        """Makes the folder this run's, or finds that it is.

        Raises:
          UserError: if it holds another run, or something else, or cannot be written.
        """
        values = to_json(config)
        if self._config.exists():
            differing = _differing(_identity(self.read_config()), _identity(values))
            if differing:
                raise UserError(
                    f"{self.path} holds another run; it differs in {', '.join(differing)}: "
                    "choose another --workdir"
                )
        elif self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UserError(f"{self.path} is not the folder of a run: choose another --workdir")
        with _writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            _write_json(self._config, {"version": VERSION, "config": values})

    def read_config(self) -> dict[str, Any]:
        """config.json as nested values.

        Raises:
          UserError: if the folder is not a run's, or of a version that this code does not know.
        """
        try:
            saved = json.loads(self._config.read_text())
            version, config = saved["version"], saved["config"]
        except FileNotFoundError as error:
            raise UserError(f"{self.path}: not the folder of a run (no config.json)") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{self._config}: cannot be read: {error}") from error
        if version != VERSION:
            raise UserError(f"{self._config}: version {version}; this code reads {VERSION}")
        return config

    def read_task(self) -> Task:
        """The run's task, with its vocabulary and without its data."""
        values = self.read_config()
        kind = task_class(values.get("task", ""))
        try:
            task = kind(from_mapping(kind.config_class, values))
        except UserError as error:
            raise UserError(f"{self._config}: {error}") from error
        task.read_vocabulary(self.vocabulary)
        return task

    def write_vocabulary(self, task: Task) -> None:
        """Keeps the vocabulary, so that the run can be used without its corpus."""
        with _writing(self.path):
            self.vocabulary.mkdir(exist_ok=True)
            task.write_vocabulary(self.vocabulary)

    def write_scored(self, split: str, scored: Scored) -> None:
        """eval/<split>.json and the predictions in the task's own format."""
        folder = self.path / "eval"
        with _writing(folder):
            folder.mkdir(exist_ok=True)
            for ending, text in scored.files.items():
                _write(folder / f"{split}{ending}", text)
            _write_json(folder / f"{split}.json", {**scored.metrics, **scored.notes})

    def write_result(self, result: Mapping[str, Any]) -> None:
        """result.json: the run is over."""
        with _writing(self.path):
            _write_json(self.result, result)

    def read_result(self) -> dict[str, Any] | None:
        """result.json, or None while the run is not over."""
        return json.loads(self.result.read_text()) if self.result.exists() else None


def _identity(config: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """What makes a run this run: its config without how far, how often and on what it runs."""
    identity = {}
    for name, value in config.items():
        key = f"{at}{name}"
        if key == "mesh" or key == "train.steps" or name.endswith("_every"):
            continue
        identity.update(_identity(value, f"{key}.") if isinstance(value, dict) else {key: value})
    return identity


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    missing = object()
    keys = sorted({*old, *new})
    return [key for key in keys if old.get(key, missing) != new.get(key, missing)]


def _write(path: Path, text: str) -> None:
    """Replaces the file in one move: a reader never sees half of it."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", newline="")
    os.replace(partial, path)


def _write_json(path: Path, value: Any) -> None:
    _write(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextlib.contextmanager
def _writing(path: Path):
    try:
        yield
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
