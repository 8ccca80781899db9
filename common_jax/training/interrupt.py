"""SIGTERM and SIGINT as requests: a scheduler's notice, a person's Ctrl-C."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

from common_jax.errors import Interrupted

SIGNALS = (signal.SIGTERM, signal.SIGINT)
ECHO_SECONDS = 10.0


class Requests:
    """Notes a request to stop, for the loop to answer between two steps; a context manager.

    A second request is not waited for: it raises where the program stands, unless it is SIGTERM
    within seconds, since a scheduler may tell a process that its parent has told too. Outside the
    main thread, where Python lets nobody handle signals, nothing is noted.

    Attributes:
      noted: the signal, or None.
    """

    def __init__(self) -> None:
        self.noted: int | None = None
        self._at_once = False
        self._last = -ECHO_SECONDS
        self._before: dict[int, object] = {}

    def __enter__(self) -> "Requests":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, kind, error, traceback) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """A stretch that can be left anywhere, because nothing in it would be lost.

        Raises:
          Interrupted: when a request comes, or has come before.
        """
        if self.noted is not None:
            raise Interrupted(self.noted)
        self._at_once = True
        try:
            yield
        finally:
            self._at_once = False

    def _note(self, number: int, frame: object) -> None:
        now, again = time.monotonic(), self.noted is not None
        echo = number == signal.SIGTERM and now - self._last < ECHO_SECONDS
        self.noted, self._last = number, now
        if self._at_once or (again and not echo):
            raise Interrupted(number)
