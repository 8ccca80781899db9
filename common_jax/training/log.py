"""Logging of a run's metrics: metrics.jsonl, TensorBoard, and a progress bar."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common_jax.errors import UserError
from common_jax.io.appending import open_to_append
from common_jax.io.atomic import replace_text, writing
from common_jax.io.copies import Mirror
from common_jax.io.progress import is_quiet
from common_jax.training.multihost import first_process_only, is_first
from common_jax.training.run_folder import RunFolder


class MetricsLog:
    """Writes metrics.jsonl and TensorBoard events, without repeated steps after a restart.

    The constructor and `write` raise a UserError if the folder cannot be written. Of several
    processes only the first one writes; all have the attributes.

    Attributes:
      resumed_from: the steps at which the run was resumed, oldest first.
      wall_seconds: training time of earlier processes.
      validations: step and values of each line of the dev split, oldest first.
    """

    def __init__(self, run: RunFolder, start: int):
        self._path = run.metrics_file
        self._files = contextlib.ExitStack()
        lines, self.wall_seconds = self._open(run, start)
        self.resumed_from = [line["resumed_from"] for line in lines if "resumed_from" in line]
        self.validations = [(x["step"], x) for x in lines if x.get("split") == "dev"]

    @first_process_only
    def _open(self, run: RunFolder, start: int) -> tuple[list[dict[str, Any]], float]:
        """Opens both to continue after step `start`; returns the lines of restarts and validations,
        and the training time."""
        with writing(self._path):
            lines = [line for line in run.metrics() if line["step"] <= start]
            replace_text(self._path, "".join(json.dumps(line) + "\n" for line in lines))
            self._file = open_to_append(self._path)
            self._files.callback(self._file.close)
            self._events = Mirror(run.tensorboard)
            self._files.callback(self._events.close)
            self._board = _Board(self._events.folder, start)
            self._files.callback(self._board.close)
            if start:
                lines.append({"step": start, "resumed_from": start})
                self._write_line(lines[-1])
        seconds = max((line.get("wall_seconds", 0.0) for line in lines), default=0.0)
        return [line for line in lines if {"split", "resumed_from"} & line.keys()], seconds

    def write(self, step: int, values: dict[str, Any]) -> None:
        """Writes a line, and its numbers to TensorBoard by split."""
        if values.get("split") == "dev":
            self.validations.append((step, values))
        if not is_first():
            return
        group = values.get("split", "train")
        numbers = {k: v for k, v in values.items() if isinstance(v, int | float)}
        with writing(self._path):
            self._write_line({"step": step, **values})
            self._board.write(step, {f"{group}/{name}": v for name, v in numbers.items()})

    def flush(self) -> None:
        """Writes to a bucket what is not there yet, before a checkpoint is saved."""
        if is_first():
            with writing(self._path):
                self._file.flush()
                self._events.flush()

    def close(self) -> None:
        """Closes both; all lines are on disk, but TensorBoard's last ones may be lost."""
        with contextlib.suppress(OSError, UserError):  # would hide the error that ended the run
            self._files.close()

    def _write_line(self, values: dict[str, Any]) -> None:
        remaining = (json.dumps(values) + "\n").encode()
        while remaining:  # an almost full disk accepts a part, then raises
            remaining = remaining[self._file.write(remaining) :]


class _Board:
    """Scalars for TensorBoard, written in the calling thread.

    tensorboardX's `SummaryWriter` (2.6.5) writes in a thread; a full disk ends that thread, and
    `add_scalar` then blocks forever.
    """

    def __init__(self, folder: Path, start: int):
        from tensorboardX import summary  # slow to import
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        folder.mkdir(exist_ok=True)
        self._scalar, self._event = summary.scalar, event_pb2.Event
        self._writer = EventsWriter(str(folder / "events"), f".{os.getpid()}.{start}")
        started = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._add(start + 1, session_log=started)  # overrides earlier events from this step on
        self._flushed = time.monotonic()

    def write(self, step: int, values: dict[str, int | float]) -> None:
        for name, value in values.items():
            self._add(step, summary=self._scalar(name, value))
        if time.monotonic() - self._flushed > 30:
            self._flushed = time.monotonic()
            self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _add(self, step: int, **content: Any) -> None:
        self._writer.write_event(self._event(wall_time=time.time(), step=step, **content))


class Progress:
    """A bar on a terminal, otherwise an occasional line, on standard error of the first process."""

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
        self._total, self._shown_at = total, 0.0

    def advance(self, steps: int) -> None:
        """Advances the bar."""
        self._bar.update(steps)

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
            self.say(f"step {step}/{self._total}  {text}")

    def say(self, text: str) -> None:
        """Writes a line above the bar."""
        if is_first() and not is_quiet():
            tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        """Closes the bar, which stays visible."""
        self._bar.close()
