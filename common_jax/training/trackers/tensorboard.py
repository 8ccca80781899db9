"""TensorBoard events, written in the calling thread."""

import os
import time
from collections.abc import Mapping
from typing import Any

from common_jax.training.trackers import TrackedRun, Tracker


class TensorBoard(Tracker):
    """Scalars for TensorBoard; events of an earlier process after the run's start are overridden.

    tensorboardX's `SummaryWriter` (2.6.5) writes in a thread; a full disk ends that thread, and
    `add_scalar` then blocks forever.
    """

    package, in_process = "tensorboardX", True

    def __init__(self, run: TrackedRun):
        from tensorboardX import summary  # slow to import
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2

        run.folder.mkdir(exist_ok=True)
        self._scalar, self._event = summary.scalar, event_pb2.Event
        self._writer = EventsWriter(str(run.folder / "events"), f".{os.getpid()}.{run.start}")
        started = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._add(run.start + 1, session_log=started)  # overrides earlier events from this step on
        self._flushed = time.monotonic()

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._add(step, summary=self._scalar(name, value))
        if time.monotonic() - self._flushed > 30:
            self._flushed = time.monotonic()
            self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _add(self, step: int, **content: Any) -> None:
        self._writer.write_event(self._event(wall_time=time.time(), step=step, **content))
