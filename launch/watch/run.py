"""A run that may be in training: its state, scores and time left, from what is new in its files."""

import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from common_jax.errors import UserError
from common_jax.io.changes import ChangingFile, GrowingLines
from common_jax.io.json_files import Node, parse_json
from common_jax.io.paths import AnyPath
from common_jax.training.best import comparable_score
from common_jax.training.identity import flat
from common_jax.training.run_folder import RunFolder, log_lines
from launch.trials.trials import record_file

State = Literal["running", "not begun", "finished", "stopped", "failed"]
STATES: tuple[State, ...] = ("running", "not begun", "finished", "stopped", "failed")
_SILENT_SECONDS = 300.0  # without a line, after which a run of another machine counts as stopped
_SILENT_GAPS = 10  # or this many times the longest time between two lines, if that is longer
_STOPPED_BY_SWEEP = "by the sweep, as others did better"
_KILLED = "its process ended without a record, as when it is killed"


@dataclasses.dataclass(frozen=True)
class Status:
    """The state of a run.

    Attributes:
      note: one line on it; an error.
      seconds_left: of training, at the last line of the log; None if it is not known.
    """

    state: State
    note: str = ""
    seconds_left: float | None = None


class WatchedRun:
    """A run that may be in training, or a trial that has not begun.

    Attributes:
      name: its folder, relative to the watched one.
      lines: as of `RunFolder.metrics`.
      fields: of its config, by their full names; empty before it has begun.
      result: as of `RunFolder.result`; empty until the run is finished.
      status: at the last look.
      version: changes with each look that found something new.
    """

    def __init__(self, folder: AnyPath, name: str, trial: bool):
        """
        Args:
          trial: whether it is one of a sweep.
        """
        self.name, self.version = name, 0
        self.lines: list[dict[str, Any]] = []
        self.fields: dict[str, Any] = {}
        self.result: Mapping[str, Any] = {}
        self.status = Status("not begun")
        run = RunFolder(folder)
        self._log, self._lock = GrowingLines(run.metrics_file), run.lock_state()
        files = {"config": run.config_file, "result": run.result_file, "end": run.end_file}
        files |= {"record": record_file(folder.parent, folder.name)} if trial else {}
        self._files = {name: ChangingFile(path) for name, path in files.items()}
        self._values = {name: Node({}, str(path)) for name, path in files.items()}

    def look(self) -> None:
        """Reads what is new.

        Raises:
          UserError: if a bucket cannot be read.
        """
        new = any([self._read(name) for name in self._files])
        replaced, texts = self._log.read()
        if replaced:
            self.lines = []
        self.lines += log_lines(texts)
        if new:
            config = _get(self._values["config"], "config", dict)
            self.fields, self.result = flat(config), self._values["result"].value
        status = self._status()
        if new or replaced or texts or status != self.status:
            self.version, self.status = self.version + 1, status

    @property
    def changed(self) -> float:
        """The time of the last line, in seconds since 1970; 0 in a bucket."""
        return self._log.modified

    @property
    def steps(self) -> int:
        """The number of steps that the run is to take."""
        return self._number("train.steps", int)

    @property
    def step(self) -> int:
        """The last step in the log."""
        return max((line["step"] for line in self.lines[-3:]), default=0)

    @property
    def metric(self) -> str:
        """The metric that selects the checkpoint."""
        return str(self.fields.get("train.best_metric", ""))

    @property
    def task(self) -> str:
        """The class of the task."""
        return str(self.fields.get("task", "")).rpartition(":")[2]

    @property
    def validations(self) -> list[dict[str, Any]]:
        """`RunFolder.validations` with the metric."""
        dev = (line for line in self.lines if line.get("split") == "dev")
        return [line for line in dev if self.metric in line]

    @property
    def best(self) -> dict[str, Any] | None:
        """The best validation."""
        score = lambda line: comparable_score(line, self.metric)
        return max(self.validations, key=score, default=None)

    def latest(self, name: str) -> Any:
        """The last value of a name in the lines of training; None if there is none."""
        lines = (line for line in reversed(self.lines) if "split" not in line)
        return next((line[name] for line in lines if name in line), None)

    @property
    def seconds(self) -> float:
        """The time of training so far."""
        return max((line.get("wall_seconds", 0.0) for line in self.lines[-3:]), default=0.0)

    def _status(self) -> Status:
        if not self.fields and not self._recorded:
            return Status("not begun")
        result, steps = self.result, self.steps
        if result and (result.get("stopped_early") or _get_int(result, "steps") >= steps > 0):
            return Status("finished")
        held, process = self._lock.look()
        if held:
            return self._running()
        if self._recorded:
            return self._recorded[-1]
        if held is None:
            age = time.time() - max(file.modified for file in (self._log, self._files["config"]))
            if age < max(_SILENT_SECONDS, _SILENT_GAPS * _longest_gap(self.lines)):
                return self._running()
            return Status("stopped", f"no line for {duration(age)}; last trained by {process}")
        return Status("failed", _KILLED)

    @property
    def _recorded(self) -> list[Status]:
        """The ends that the run and its sweep recorded, the sweep's last."""
        sources = {"end": ("message", ""), "record": ("error", _STOPPED_BY_SWEEP)}
        recorded: list[Status] = []
        for name, (text, default) in sources.items():
            node = self._values.get(name)
            state: Any = None if node is None else _get(node, "state", str)
            if node is not None and state in ("failed", "stopped"):
                note = _get(node, text, str)
                recorded.append(Status(state, note or (default if state == "stopped" else "")))
        return recorded

    def _running(self) -> Status:
        if 0 < self.steps <= self.step:
            return Status("running", "scoring", 0.0)
        return Status("running", "", seconds_left(self.lines, self.steps))

    def _read(self, name: str) -> bool:
        """Reads a JSON file if it has changed; one that is being written is read again later."""
        changed, content = self._files[name].read()
        if changed:
            place = self._values[name].place
            self._values[name] = Node({}, place)
            if content is not None:
                try:
                    node = parse_json(content.decode(errors="replace"), place)
                    self._values[name] = node if isinstance(node.value, dict) else Node({}, place)
                except UserError:  # shown as if it were not there
                    pass
        return changed

    def _number(self, name: str, kind: type) -> Any:
        value = self.fields.get(name)
        return value if type(value) is kind else kind()


def seconds_left(lines: Sequence[Mapping[str, Any]], steps: int) -> float | None:
    """The seconds until the last step, at the mean speed since the log's first line after the last
    restart, including validations and saving but not compilation; None if unknown."""
    restarts = [number for number, line in enumerate(lines) if "resumed_from" in line]
    since = lines[restarts[-1] :] if restarts else lines
    for logged in (since, lines):
        timed = [line for line in logged if "wall_seconds" in line]
        if len(timed) > 1 and timed[-1]["step"] > timed[0]["step"]:
            taken = timed[-1]["step"] - timed[0]["step"]
            seconds = timed[-1]["wall_seconds"] - timed[0]["wall_seconds"]
            return max(0.0, seconds / taken * (steps - timed[-1]["step"]))
    return None


def duration(seconds: float) -> str:
    """A time in two units: "2 h 5 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 36 else f"{hours // 24} d {hours % 24} h"


def _longest_gap(lines: Sequence[Mapping[str, Any]]) -> float:
    times = [line["wall_seconds"] for line in lines[-50:] if "wall_seconds" in line]
    return max((b - a for a, b in itertools.pairwise(times)), default=0.0)


def _get(node: Node, name: str, kind: type) -> Any:
    """A field of a file, or an empty value if there is none of this kind."""
    try:
        return node.get(name, kind, kind())
    except UserError:
        return kind()


def _get_int(values: Mapping[str, Any], name: str) -> int:
    return values[name] if type(values.get(name)) is int else 0
