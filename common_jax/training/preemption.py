"""SIGTERM, SIGINT and SIGHUP as requests to stop: of a scheduler, Ctrl-C, a closed terminal.

Several processes of a run must stop at the same step, for which JAX's preemption service is used:
after SIGTERM in any process it synchronizes all of them by the number of their calls of `poll`.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

from jax.experimental import multihost_utils

from common_jax.errors import Interrupted
from common_jax.io.storage import bucket_state
from common_jax.io.terminal import hangup, leave_terminal
from common_jax.training.multihost import is_multiprocess

SIGNALS = (signal.SIGTERM, signal.SIGINT)
ECHO_SECONDS = 10.0
BUCKET_SECONDS = 10.0  # without an answer, after which a request ends waiting for a bucket


class PreemptionHandler:
    """A context manager that records a request to stop, which the loop polls between steps.

    A second request raises immediately; other signals than Ctrl-C only `ECHO_SECONDS` after the
    last, since a scheduler and the parent process, or a terminal and its shell, may both send one.
    SIGHUP that nohup ignores stays ignored. Outside the main thread, where Python cannot handle
    signals, nothing is recorded. Several processes handle SIGTERM only in `poll`.

    A request also gives up a bucket that does not answer meanwhile, and raises then: saving would
    outlast the grace period.

    Attributes:
      received: the signal, or None; with several processes, once all have agreed.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._polls = 0
        self._interruptible = False
        self._last = -ECHO_SECONDS
        self._before: dict[int, object] = {}

    def __enter__(self) -> "PreemptionHandler":
        if not is_multiprocess() and threading.current_thread() is threading.main_thread():
            numbers = (*SIGNALS, *hangup())
            self._before = {number: signal.signal(number, self._handle) for number in numbers}
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._require_bucket)
        return self

    def __exit__(self, kind, error, traceback) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def poll(self) -> int | None:
        """The signal received, or None. To be called at the same points in all processes."""
        self._polls += 1
        if is_multiprocess() and multihost_utils.reached_preemption_sync_point(self._polls):
            self.received = signal.SIGTERM
        return self.received

    def raise_if_requested(self) -> None:
        """Calls `poll`; raises Interrupted if there is a request."""
        if (request := self.poll()) is not None:
            raise Interrupted(request)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """A context that a request interrupts immediately, as nothing in it would be lost.

        Raises:
          Interrupted: upon a request, also an earlier one.
        """
        if self.received is not None:
            raise Interrupted(self.received)
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    def _handle(self, number: int, frame: object) -> None:
        now = time.monotonic()
        again = self.received is not None
        echo = number != signal.SIGINT and now - self._last < ECHO_SECONDS
        leave_terminal()
        self.received = number
        self._last = now
        if self._interruptible or (again and not echo):
            raise Interrupted(number)
        signal.setitimer(signal.ITIMER_REAL, BUCKET_SECONDS, 1.0)

    def _require_bucket(self, number: int, frame: object) -> None:
        """Raises Interrupted if a bucket does not answer."""
        buckets = bucket_state()
        if self.received is None or buckets is None:
            return
        if silence := buckets.give_up_silent(BUCKET_SECONDS):
            raise Interrupted(
                self.received,
                f"stopped without saving ({silence}); the same command resumes from the last saved "
                "step",
            )
