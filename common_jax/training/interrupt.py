"""SIGTERM and SIGINT as requests: a scheduler's notice, a person's Ctrl-C."""

import contextlib
import signal
import threading
from collections.abc import Iterator

from common_jax.errors import Interrupted

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Requests:
    """Notes a request to stop, for the loop to answer between two steps; a context manager.

    A second request is not waited for: it raises where the program stands. Outside the main thread,
    where Python lets nobody handle signals, nothing is noted.

    Attributes:
      noted: the signal, or None.
    """

    def __init__(self) -> None:
        self.noted: int | None = None
        self._at_once = False
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
        again, self.noted = self.noted is not None, number
        if self._at_once or again:
            raise Interrupted(number)
