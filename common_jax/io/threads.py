"""Ordered results of a function that threads compute."""

import collections
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def threaded_map(
    function: Callable[[T], R], items: Iterable[T], threads: int
) -> Generator[R, None, None]:
    """The results in the order of the items, of which few more than `threads` are read ahead (as by
    `Executor.map` with the `buffersize` of Python 3.14)."""
    pool = ThreadPoolExecutor(threads)
    waits = True
    ahead = collections.deque[Future[R]]()
    try:
        for item in items:
            ahead.append(pool.submit(function, item))
            if len(ahead) > threads + 1:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    except KeyboardInterrupt:
        waits = False  # for a function that may never return
        raise
    finally:
        pool.shutdown(waits, cancel_futures=True)
