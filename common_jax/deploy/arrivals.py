"""Batches of the items of an iterator that have arrived, read ahead by a thread."""

import contextlib
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_FILL = 0.05  # seconds that a list waits for more items after its first
_POLL = 0.2  # seconds until the thread notices that its items are not needed


def arriving(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """Lists of the items that have arrived since the last list: at least one, at most `most`.

    An error of the iterator is raised after the items before it.
    """
    arrived: queue.Queue[tuple[T] | BaseException | None] = queue.Queue(most)
    closed = threading.Event()
    threading.Thread(target=_read, args=(items, arrived, closed), daemon=True).start()
    entry: Any = None

    # A list ends when it is full, when no item arrives in time, or with the iterator.
    try:
        while isinstance(entry := arrived.get(), tuple):
            batch = [entry[0]]
            full = time.monotonic() + _FILL
            with contextlib.suppress(queue.Empty):
                while len(batch) < most:
                    entry = arrived.get(timeout=max(0.0, full - time.monotonic()))
                    if not isinstance(entry, tuple):
                        break
                    batch.append(entry[0])
            yield batch
            if not isinstance(entry, tuple):
                break

        # An error of the iterator comes after the items before it.
        if entry is not None:
            raise entry
    finally:
        closed.set()


def _read(items: Iterable[Any], arrived: queue.Queue[Any], closed: threading.Event) -> None:
    """Puts each item as a tuple, and then the error or None, until the reader has closed."""
    end: BaseException | None = None
    try:
        for item in items:
            if not _put((item,), arrived, closed):
                return
    except BaseException as error:  # raised by the reader
        end = error
    _put(end, arrived, closed)


def _put(entry: Any, arrived: queue.Queue[Any], closed: threading.Event) -> bool:
    while not closed.is_set():
        with contextlib.suppress(queue.Full):
            arrived.put(entry, timeout=_POLL)
            return True
    return False
