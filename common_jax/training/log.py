"""Where the numbers of a run go: metrics.jsonl, TensorBoard, and a progress bar."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from common_jax.io.atomic import replace_text, writing
from common_jax.io.json_files import is_number
from common_jax.training.multihost import first_process_only, is_first


class MetricsLog:
    """metrics.jsonl and its twin for TensorBoard, continued without repetition after a restart.

    Making it and `write` raise a UserError if the folder cannot be written. The first process of
    several writes; what is known is known to all.

    Attributes:
      resumed_from: the steps at which the run was taken up again, oldest first.
      wall_seconds: training time of the process before this one.
      validations: step and values of each line of the dev split, oldest first.
    """

    def __init__(self, path: Path, start: int):
        self._path = path
        self._files = contextlib.ExitStack()
        kept, self.wall_seconds = self._open(start)
        self.resumed_from = [line["resumed_from"] for line in kept if "resumed_from" in line]
        self.validations = [(x["step"], x) for x in kept if x.get("split") == "dev"]

    @first_process_only
    def _open(self, start: int) -> tuple[list[dict[str, Any]], float]:
        """Opens both to go on after step `start`; the restarts and validations that there are, and
        the time spent."""
        with writing(self._path):
            kept = [line for line in read_metrics(self._path) if line["step"] <= start]
            replace_text(self._path, "".join(json.dumps(line) + "\n" for line in kept))
            self._file = self._path.open("ab", buffering=0)  # nothing waits for a disk to have room
            self._files.callback(self._file.close)
            self._board = _Board(self._path.parent / "tensorboard", start)
            self._files.callback(self._board.close)
            if start:
                kept.append({"step": start, "resumed_from": start})
                self._write_line(kept[-1])
        spent = max((line.get("wall_seconds", 0.0) for line in kept), default=0.0)
        return [line for line in kept if {"split", "resumed_from"} & line.keys()], spent

    def write(self, step: int, values: dict[str, Any]) -> None:
        """One line, and its numbers to TensorBoard under their split."""
        if values.get("split") == "dev":
            self.validations.append((step, values))
        if not is_first():
            return
        group = values.get("split", "train")
        numbers = {k: v for k, v in values.items() if isinstance(v, int | float)}
        with writing(self._path):
            self._write_line({"step": step, **values})
            self._board.write(step, {f"{group}/{name}": v for name, v in numbers.items()})

    def close(self) -> None:
        """Lets go of both; every line is on disk already, and TensorBoard's last may be lost."""
        with contextlib.suppress(OSError):  # would hide what ended the run
            self._files.close()

    def _write_line(self, values: dict[str, Any]) -> None:
        left = (json.dumps(values) + "\n").encode()
        while left:  # a disk that is filling up takes a part, then says no
            left = left[self._file.write(left) :]


class _Board:
    """Scalars for TensorBoard.

    tensorboardX's own `SummaryWriter` writes in a thread that a full disk ends in silence, and then
    waits for it forever.
    """

    def __init__(self, folder: Path, start: int):
        from tensorboardX import summary  # slow to import
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        folder.mkdir(exist_ok=True)
        self._scalar, self._event = summary.scalar, event_pb2.Event
        self._writer = EventsWriter(str(folder / "events"), f".{os.getpid()}.{start}")
        started = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._add(start + 1, session_log=started)  # what follows replaces what was there from here
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


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl, without those that a kill or a bad disk has damaged; none where
    there is no such file."""
    lines = []
    for text in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            line = json.loads(text)
            numbers = [value for name, value in line.items() if name != "split"]
            if type(line["step"]) is int and line["step"] >= 0 and all(map(is_number, numbers)):
                lines.append(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return lines


class Progress:
    """A bar on a terminal, a line now and then elsewhere, both on standard error; of several
    processes the first one's."""

    def __init__(self, start: int, total: int):
        self._bar = tqdm(
            initial=start,
            total=total,
            unit="step",
            dynamic_ncols=True,
            disable=None if is_first() else True,
            smoothing=0.05,
        )
        self._plain = not sys.stderr.isatty()
        self._total, self._said = total, 0.0

    def advance(self, steps: int) -> None:
        """So many steps more."""
        self._bar.update(steps)

    def show(self, step: int, values: dict[str, Any], *, always: bool = False) -> None:
        """The latest numbers; without a terminal at most one line in ten seconds."""
        text = "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in values.items()
        )
        if not self._plain and not always:
            self._bar.set_postfix_str(text)
        elif always or time.monotonic() - self._said > 10:
            self._said = time.monotonic()
            self.say(f"step {step}/{self._total}  {text}")

    def say(self, text: str) -> None:
        """A line above the bar."""
        if is_first():
            tqdm.write(text, file=sys.stderr)

    def close(self) -> None:
        """Leaves the bar as it stands."""
        self._bar.close()
