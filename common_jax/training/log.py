"""Logging of a run's metrics: metrics.jsonl, trackers, and a progress bar."""

import contextlib
import importlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tqdm import tqdm

from common_jax.errors import UserError
from common_jax.io.atomic import replace_text, writing
from common_jax.io.progress import is_quiet
from common_jax.io.storage import folder_of
from common_jax.training.multihost import first_process_only, is_first
from common_jax.training.run_folder import RunFolder, final_scores

_TRACKERS = "common_jax.training.trackers"  # imported only by runs with trackers


def require_trackers(names: Sequence[str]) -> None:
    """Raises UserError for a tracker whose package is missing."""
    if names:
        importlib.import_module(_TRACKERS).require_installed(names)


class MetricsLog:
    """Writes metrics.jsonl and to trackers; after a restart, no step twice.

    The constructor and the methods that write raise a UserError if the folder cannot be written.
    Only the first process writes; all have the attributes.

    Attributes:
      resumed_from: the steps at which the run was resumed, oldest first.
      wall_seconds: training time of earlier processes.
      validations: step and values of each line of the dev split, oldest first.
      bad_steps: the number of steps that were not applied.
    """

    def __init__(
        self,
        run: RunFolder,
        start: int,
        trackers: Sequence[str] = ("tensorboard",),
        config: Mapping[str, Any] | None = None,
    ):
        """
        Args:
          start: the step after which the run continues.
          trackers: names of `common_jax.config.TRACKERS`.
          config: its values by the fields' full names, for the trackers.
        """
        self._path = run.metrics_file
        self._files = contextlib.ExitStack()
        self._names = trackers
        self._config = config or {}
        self._trackers: list[Any] = []
        lines, self.wall_seconds, self.bad_steps = self._open(run, start)
        self.resumed_from = [line["resumed_from"] for line in lines if "resumed_from" in line]
        self.validations = [(x["step"], x) for x in lines if x.get("split") == "dev"]

    @first_process_only
    def _open(self, run: RunFolder, start: int) -> tuple[list[dict[str, Any]], float, int]:
        """Opens the files to continue after step `start`; returns the lines of restarts and
        validations, the training time, and the number of steps that were not applied."""
        with writing(self._path):
            # the file, without the lines of steps that are taken again
            lines = [line for line in run.metrics() if line["step"] <= start]
            replace_text(self._path, "".join(json.dumps(line) + "\n" for line in lines))
            self._file = folder_of(self._path.parent).append(self._path.name)
            self._files.callback(self._file.close)

            # the trackers, which continue from the same step
            for name in self._names:
                module = importlib.import_module(_TRACKERS)
                tracker = module.open_tracker(name, run, start, self._config)
                self._files.callback(tracker.close)
                self._trackers.append(tracker)
            for tracker in self._trackers:  # called before `close`: all send at once
                self._files.callback(tracker.end)
            self._files.callback(self._file.flush)
            if start:
                lines.append({"step": start, "resumed_from": start})
                self._write_line(lines[-1])

        # the totals up to that step
        seconds = max((line.get("wall_seconds", 0.0) for line in lines), default=0.0)
        bad_steps = sum(line.get("bad_steps", 0) for line in lines)
        return [x for x in lines if {"split", "resumed_from"} & x.keys()], seconds, bad_steps

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Writes a line, also to the trackers."""
        if values.get("split") == "dev":
            self.validations.append((step, values))
        self.bad_steps += values.get("bad_steps", 0)
        if not is_first():
            return
        line = {"step": step, **values}
        with writing(self._path):
            self._write_line(line)
            self._track(line)

    def write_final(self, step: int, metrics: Mapping[str, Mapping[str, float]]) -> None:
        """Writes the final scores of each split to the trackers."""
        if is_first():
            with writing(self._path):
                self._track({"step": step, **final_scores(metrics)})

    def flush(self) -> None:
        """Writes what is not in the folder yet, which may not be on a disk."""
        if is_first():
            with writing(self._path):
                self._file.flush()
                for tracker in self._trackers:
                    tracker.flush()

    def close(self) -> None:
        """Closes the files; trackers may lose their last numbers."""
        with contextlib.suppress(OSError, UserError):  # would hide the error that ended the run
            self._files.close()

    def _track(self, line: Mapping[str, Any]) -> None:
        for tracker in self._trackers:
            tracker.write(line)

    def _write_line(self, values: dict[str, Any]) -> None:
        remaining = (json.dumps(values) + "\n").encode()
        while remaining:  # an almost full disk accepts a part, then raises
            remaining = remaining[self._file.write(remaining) :]


class Progress:
    """A bar on a terminal, otherwise an occasional line, with the time left; on standard error of
    the first process."""

    def __init__(self, start: int, total: int):
        self._bar = tqdm(
            initial=start,
            total=total,
            unit="step",
            dynamic_ncols=True,
            disable=None if is_first() and not is_quiet() else True,
            smoothing=0.05,
        )
        self._plain = not sys.stderr.isatty()
        self._total = total
        self._shown_at = 0.0
        self._step = start
        self._timed_from: tuple[int, float] | None = None  # a step and its time

    def advance(self, steps: int) -> None:
        """Advances the bar."""
        self._bar.update(steps)
        self._step += steps
        if self._timed_from is None:  # the first call of the step compiles
            self._timed_from = self._step, time.monotonic()

    def show(self, step: int, values: dict[str, Any], *, always: bool = False) -> None:
        """Shows the latest numbers; without a terminal at most one line in ten seconds."""
        text = "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in values.items()
        )
        if not self._plain and not always:
            self._bar.set_postfix_str(text)
        elif always or time.monotonic() - self._shown_at > 10:
            self._shown_at = time.monotonic()
            self.say(f"step {step}/{self._total}  {text}{self._share()}")

    def _share(self) -> str:
        """Without a bar, the share of the steps that are done and the time left."""
        if not self._plain or self._timed_from is None:
            return ""
        first, began = self._timed_from
        share = f"  ({100 * self._step // self._total} %"
        if self._step == first:
            return f"{share})"
        seconds = (time.monotonic() - began) / (self._step - first) * (self._total - self._step)
        return f"{share}, {tqdm.format_interval(seconds)} left)"

    def say(self, text: str) -> None:
        """Writes a line above the bar."""
        if is_first() and not is_quiet():
            tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        """Closes the bar, which stays visible."""
        self._bar.close()
