"""SIGTERM and SIGINT as requests: a scheduler's notice, a person's Ctrl-C.

Several processes of one run must answer at the same place. There the notice is JAX's: its
preemption service hears SIGTERM in any process and tells all of them where to stop, by the number
of a beat that they all count.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

from jax.experimental import multihost_utils

from common_jax.errors import Interrupted
from common_jax.training.multihost import is_multiprocess

SIGNALS = (signal.SIGTERM, signal.SIGINT)
ECHO_SECONDS = 10.0


class PreemptionHandler:
    """Notes a request to stop, for the loop to answer between two steps; a context manager.

    A second request is not waited for: it raises where the program stands, unless it is SIGTERM
    within seconds, since a scheduler may tell a process that its parent has told too. Outside the
    main thread, where Python lets nobody handle signals, nothing is noted. Several processes answer
    SIGTERM at beats alone, however often it comes.

    Attributes:
      received: the signal, or None; with several processes, once all have agreed.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._beats = 0
        self._interruptible = False
        self._last = -ECHO_SECONDS
        self._before: dict[int, object] = {}

    def __enter__(self) -> "PreemptionHandler":
        if not is_multiprocess() and threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, kind, error, traceback) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def poll(self) -> int | None:
        """The signal to answer here, or None. Called at the same places in all processes."""
        self._beats += 1
        if is_multiprocess() and multihost_utils.reached_preemption_sync_point(self._beats):
            self.received = signal.SIGTERM
        return self.received

    def raise_if_requested(self) -> None:
        """A beat where a request is answered by leaving.

        Raises:
          Interrupted: if there is one.
        """
        if (request := self.poll()) is not None:
            raise Interrupted(request)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """A stretch that can be left anywhere, because nothing in it would be lost.

        Raises:
          Interrupted: when a request comes, or has come before.
        """
        if self.received is not None:
            raise Interrupted(self.received)
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    def _note(self, number: int, frame: object) -> None:
        now, again = time.monotonic(), self.received is not None
        echo = number == signal.SIGTERM and now - self._last < ECHO_SECONDS
        self.received, self._last = number, now
        if self._interruptible or (again and not echo):
            raise Interrupted(number)
