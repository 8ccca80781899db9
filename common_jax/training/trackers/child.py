"""The process of a tracker: reads the run and its numbers as JSON lines from standard input.

The first line is the arguments of `main`; each other line is a step and numbers by name. After the
last the process has limited time. It writes the tracker's location and the first outage to standard
output; all that the tracker's package prints goes to standard error.
"""

import functools
import json
import os
import queue
import secrets
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from common_jax.io import lock
from common_jax.io.atomic import write_json
from common_jax.training.trackers import TrackedRun, Tracker, tracker_class

T = TypeVar("T")

RETRY_SECONDS = 30.0

Row = tuple[int, dict[str, float]]


class Record:
    """The id of a run's record, and what is already in it: a file of the tracker's folder.

    A run that is resumed repeats steps with the same numbers, which are written once.

    Attributes:
      id: of the record; another one if the run begins anew.
    """

    def __init__(self, folder: Path, start: int):
        self._file = folder / "record.json"
        stored = json.loads(self._file.read_text()) if start and self._file.exists() else {}
        self.id: str = stored.get("id") or secrets.token_hex(4)
        self._step: int = stored.get("step", -1)
        self._groups: set[str] = {*stored.get("groups", [])}  # of the last step
        self._save()

    def has(self, step: int, group: str) -> bool:
        """Whether a step's numbers of "train", "dev" or "final" are already in the record."""
        return step < self._step or (step == self._step and group in self._groups)

    def add(self, step: int, group: str) -> None:
        """Notes numbers as written. They are stored with the next step or by `close`, since some
        trackers send a step only then."""
        if step > self._step:
            self._save()
            self._step, self._groups = step, set()
        self._groups.add(group)

    def close(self) -> None:
        """Notes that all numbers are sent."""
        self._save()

    def _save(self) -> None:
        write_json(self._file, {"id": self.id, "step": self._step, "groups": sorted(self._groups)})


class Child:
    """A tracker that is fed from standard input."""

    def __init__(self, seconds: int):
        """The process has `seconds` for what remains at the end of the input."""
        self._parent = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self._ended, self._warned = threading.Event(), False
        self.rows = queue.SimpleQueue[Row | None]()
        self._seconds = seconds

    def run(self, name: str, folder: Path, title: str, start: int, config: Mapping) -> None:
        """Opens the tracker and writes all rows."""
        threading.Thread(target=self._read, daemon=True).start()
        # until the process of a killed run has ended
        with lock.held(folder / "record.lock"):
            self._write(Record(folder, start), name, folder, title, start, config)

    def _write(
        self, record: Record, name: str, folder: Path, title: str, start: int, config: Mapping
    ) -> None:
        title = f"{title}-{record.id}"
        tracked = TrackedRun(folder, title, record.id, start, config, self.warn)
        tracker: Tracker = self._retry(lambda: tracker_class(name)(tracked))
        self._report("info", tracker.location)
        while row := self.rows.get():
            step, values = row
            group = min(values).partition("/")[0]
            if not record.has(step, group):
                self._retry(functools.partial(tracker.log, step, values))
                record.add(step, group)
        self._retry(tracker.close)
        record.close()

    def warn(self, problem: str) -> None:
        """Reports the first outage."""
        if not self._warned:
            self._report("warning", problem)
        self._warned = True

    def _read(self) -> None:
        for line in sys.stdin:
            self.rows.put(json.loads(line))
        self._ended.set()
        signal.alarm(self._seconds)  # ends this process, also inside a call
        self.rows.put(None)

    def _retry(self, call: Callable[[], T]) -> T:
        """Calls until it succeeds, or the input has ended."""
        while True:
            try:
                return call()
            except Exception as error:
                traceback.print_exc()
                self.warn(f"{type(error).__name__}: {error}")
                if self._ended.is_set():
                    raise SystemExit(1) from error
                self._ended.wait(RETRY_SECONDS)

    def _report(self, level: str, text: str) -> None:
        message = " ".join(text.split())
        try:
            print(json.dumps([level, message[:500]]), file=self._parent)
        except OSError:  # the run was killed
            traceback.print_exc()


def main() -> None:
    """Runs a tracker with the arguments in the first line of standard input, as JSON."""
    arguments: dict[str, Any] = json.loads(sys.stdin.readline())
    child = Child(arguments.pop("seconds"))
    child.run(**arguments | {"folder": Path(arguments["folder"])})


if __name__ == "__main__":
    main()
