"""Ctrl-C while the main thread computes outside of Python, which then handles no signals."""

import contextlib
import os
import select
import signal
import threading
from collections.abc import Iterator

SECONDS = 3.0  # in which the main thread must handle Ctrl-C
_MANY = 4096  # signals read at once
_pressed = threading.Event()  # Ctrl-C, in the context


@contextlib.contextmanager
def ending_on_interrupt() -> Iterator[None]:
    """A context in which Ctrl-C raises KeyboardInterrupt, or ends the process with status 130 if
    the main thread does not handle it in `SECONDS`, as inside a compiled program.

    Other handlers that are set meanwhile, as in training, are not affected. Does nothing outside
    the main thread, and where Ctrl-C is ignored.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    handled = threading.Event()
    _pressed.clear()

    def handle(number: int, frame: object) -> None:
        _pressed.set()
        handled.set()
        raise KeyboardInterrupt

    def watch() -> None:
        while numbers := os.read(reading, _MANY):
            if signal.SIGINT in numbers and signal.getsignal(signal.SIGINT) is handle:
                if not handled.wait(SECONDS):
                    os.write(2, b"stopped\n")
                    os._exit(130)
                handled.clear()
                while select.select([reading], [], [], 0)[0] and os.read(reading, _MANY):
                    pass  # handled with the first
        os.close(reading)

    # Python writes the number of each signal to the pipe when it arrives.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, handle)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(before)
        os.close(writing)


def raise_if_interrupted() -> None:
    """Raises KeyboardInterrupt after a Ctrl-C in the context whose exception has been lost, as in a
    callback that a library's C code calls."""
    if _pressed.is_set():
        raise KeyboardInterrupt
