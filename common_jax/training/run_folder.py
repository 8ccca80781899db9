"""Reads the folder of a run, without jax.

Only this module, `common_jax.training.run_writer` and `common_jax.training.scored_run` name the
files of a run, which docs/files.md lists; `config.json` and `vocabulary` are named in
`common_jax.deploy.format`, as exports have them.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from common_jax.config import OptimizerConfig, from_values
from common_jax.errors import UserError, error_context
from common_jax.file_names import CONFIG, EXPORT, VOCABULARY
from common_jax.io import lock
from common_jax.io.json_files import read_json
from common_jax.io.paths import AnyPath, as_path
from common_jax.io.storage import folder_of
from common_jax.renames import current_class
from common_jax.training.identity import COOLDOWN, identity, resuming

VERSION = 1  # of config.json
RESULT = "result.json"
END = "end.json"
# After a split's name:
EXAMPLES = ".examples.tsv"
REFERENCES = ".references"
SOURCES = ".sources"
ERRORS = ".errors.jsonl"
_RESULT = {  # fields of every result.json
    **{"steps": int, "parameters": int, "wall_seconds": float, "devices": list[str]},
    **{"metrics": dict[str, dict[str, float]], "versions": dict[str, str]},
}


class RunFolder:
    """The folder of a run.

    Unless stated otherwise, methods raise a UserError for a file that is missing or damaged.

    Attributes:
      path: the folder, which need not exist.
      checkpoints, damaged: the folders of the steps, and of damaged ones (`Checkpoints`).
      tensorboard: the folder of the events.
      profile: the folder of the traces of steps.
      vocabulary: the folder of `Task.write_vocabulary`.
      config_file, metrics_file, data_file: of `config`, `metrics` and `data_digests`.
      result_file, end_file: of `result`, and of `RunWriter.recording_end`.
    """

    def __init__(self, path: str | AnyPath):
        self.path = as_path(path)
        self.checkpoints = self.path / "checkpoints"
        self.damaged = self.path / "damaged"
        self.tensorboard = self.path / "tensorboard"
        self.profile = self.path / "profile"
        self.vocabulary = self.path / VOCABULARY
        self.config_file = self.path / CONFIG
        self.metrics_file = self.path / "metrics.jsonl"
        self.result_file = self.path / RESULT
        self.end_file = self.path / END
        self.data_file = self.path / "data.json"
        self._lock = self.path / "lock"

    @property
    def is_export(self) -> bool:
        """Whether there is an export in the folder, not a run."""
        return (self.path / EXPORT).exists()

    def tracker(self, name: str) -> AnyPath:
        """The folder of a tracker's files."""
        return self.tensorboard if name == "tensorboard" else self.path / "trackers" / name

    @property
    def trained_by(self) -> str:
        """The other process that is training here; "" if there is none."""
        exists = self._lock.exists()
        return folder_of(self.path).lock(self._lock.name, keep=False) if exists else ""

    def config(self) -> dict[str, Any]:
        """The config as nested values; raises UserError also for an unknown version."""
        if not self.config_file.exists():
            raise UserError(f"{self.path}: not the folder of a run (no {CONFIG})")
        saved = read_json(self.config_file)
        version = saved.get("version", int)
        config = saved.get("config", dict)
        if version != VERSION:
            raise UserError(f"{self.config_file}: version {version}; this code reads {VERSION}")
        return config

    @property
    def has_begun(self) -> bool:
        """Whether there is something to resume: a checkpoint or a result."""
        return bool(self.steps) or self.damaged.exists() or self.result_file.exists()

    @property
    def steps(self) -> list[int]:
        """The steps of the complete checkpoints, oldest first."""
        names = folder_of(self.checkpoints).complete()
        return sorted(int(name) for name in names if re.fullmatch("0|[1-9][0-9]*", name))

    def data_digests(self) -> dict[str, str] | None:
        """`Task.data_digests` of the run; None if unknown, as in older runs."""
        if not self.data_file.exists():
            return None
        return read_json(self.data_file).get("sha256", dict[str, str])

    def scheduled_optimizer(self, config_class: type) -> OptimizerConfig:
        """The recorded optimizer, with the cooldown in steps, which a resumed run keeps."""
        recorded: Any = from_values(config_class, self.config())
        optimizer: OptimizerConfig = recorded.optimizer
        return optimizer.scheduled(recorded.train.steps)

    def require(self, config: Any, new_schedule: bool = False) -> None:
        """Raises UserError if the folder has another run, or files of no run.

        A start that failed before its first checkpoint leaves nothing to resume: its config is
        ignored.

        Args:
          new_schedule: whether the cooldown may be another.
        """
        self._require_run()
        if not (self.config_file.exists() and self.has_begun):
            return

        # the recorded run must be of the same task
        values = self.config()
        task = str(values.get("task"))
        if current_class(task) != config.task:
            raise UserError(
                f"{self.path} holds a run of another task, {task}: choose another --workdir"
            )

        # and its identity the same, except for what is derived of the cooldown
        with error_context(self.config_file):
            old = identity(from_values(type(config), values))
        new = identity(config)
        differing = sorted(k for k in {*old, *new} if old.get(k) != new.get(k))
        derived = {key for key in COOLDOWN if new_schedule or new[key] < 0}  # the recorded governs
        differing = [key for key in differing if key not in derived]
        if differing:
            raise UserError(
                f"{self.path} holds another run; it differs in {', '.join(differing)}: "
                f"{resuming(differing, old, new)}choose another --workdir"
            )

    def require_path(self, characters: str = "\\") -> None:
        """Raises UserError for characters of the path with which checkpoints cannot be read."""
        path = str(self.path.absolute())
        if unusable := [character for character in characters if character in path]:
            raise UserError(
                f"{path}: {unusable[0]} in the path of a run: the libraries that write and read "
                "checkpoints take it for something else; name a folder without it"
            )

    def _require_run(self) -> None:
        self.require_path("\\[")  # TensorStore reads "\" as "/", and Orbax "[" as a pattern
        if self.is_export:
            raise UserError(f"{self.path} holds an export: choose another --workdir")
        if self.config_file.exists() or not self.path.exists():
            return
        locks = (self._lock, lock.lease_folder(self._lock))
        if not self.path.is_dir() or any(p not in locks for p in self.path.iterdir()):
            raise UserError(f"{self.path} is not the folder of a run: choose another --workdir")

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of the log, without damaged ones and null values; empty without a log."""
        file = self.metrics_file
        return log_lines(file.read_bytes().splitlines() if file.is_file() else ())

    def validations(self) -> list[dict[str, Any]]:
        """The lines of the log that are scores of the dev split."""
        return [line for line in self.metrics() if line.get("split") == "dev"]

    def result(self) -> dict[str, Any] | None:
        """result.json, or None if the run is not finished."""
        if not self.result_file.exists():
            return None
        node = read_json(self.result_file)
        for name, value_type in _RESULT.items():
            node.get(name, value_type)
        optional = {"best_step": int, "command": str, "warnings": list[str]}
        for name, value_type in optional.items():
            node.get(name, value_type, default=value_type())
        return node.value

    def finished(self, config: Any) -> dict[str, Any] | None:
        """The result if the run needs no more steps; else None."""
        result = self.result()
        over = result and (result["steps"] >= config.train.steps or result.get("stopped_early"))
        return result if over else None

    def _split_file(self, split: str, ending: str) -> AnyPath:
        return self.path / "eval" / f"{split}{ending}"


def require_same_data(
    digests: Mapping[str, str],
    wanted: Mapping[str, str],
    owner: str,
    task: Any,
    advice: str = "choose another --workdir",
) -> None:
    """Raises UserError if data differ, naming the parts of the corpus that do."""
    names = sorted(k for k in {*digests, *wanted} if digests.get(k) != wanted.get(k))
    if names:
        differing = ", ".join(dict.fromkeys(name.partition("/")[0] for name in names))
        source = getattr(task.config.data, "dir", "") or "its source"
        raise UserError(
            f"data.dir={source}: other data than {owner}: they differ in {differing}; use the same "
            f"files and word vectors, or {advice}"
        )


def log_lines(texts: Iterable[bytes]) -> list[dict[str, Any]]:
    """The parsed lines of a log, without damaged ones and null values."""
    lines = []
    for text in texts:
        try:
            line = {name: v for name, v in json.loads(text).items() if v is not None}
            numbers = [value for name, value in line.items() if name != "split"]
            real = all(type(number) in (int, float) for number in numbers)
            if type(line["step"]) is int and line["step"] >= 0 and real:
                lines.append(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return lines


def final_scores(metrics: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """The metrics of a result as a line of the log for trackers."""
    scores = {f"{split}/{k}": v for split in metrics for k, v in metrics[split].items()}
    return {"split": "final", **scores}
