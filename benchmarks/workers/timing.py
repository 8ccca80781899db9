"""What every worker does: reads its job, times steps, prints one line of JSON.

Runs in the environment of a peer too, hence the standard library and NumPy alone.
"""

import json
import resource
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Batch = dict[str, np.ndarray]


class Work(NamedTuple):
    """What a worker times.

    Attributes:
      step: runs to its end for one of the items; may return the answers to its examples, texts or
        lists of numbers, in the form that all sides have.
      items: batches of any form.
      units: in all items together, of the rates.
      parameters: number of trained ones.
    """

    step: Callable[[Any], Sequence[Any] | None]
    items: Sequence[Any]
    units: int
    parameters: int


def work(make: Callable[[dict[str, Any]], Work]) -> None:
    """Times the job of the first argument, a JSON file, and prints what it measured.

    The job's fields: "phase", what the step does; "passes", how often all items are timed, after
    one pass that is not; and those of the worker.
    """
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    start = time.perf_counter()
    own = make(job)
    answers = [answer for item in own.items for answer in own.step(item) or ()]
    ready = time.perf_counter()
    seconds = []
    for _ in range(job["passes"]):
        for item in own.items:
            before = time.perf_counter()
            own.step(item)
            seconds.append(time.perf_counter() - before)
    measured = {
        "units": own.units * job["passes"],
        "seconds": seconds,
        "first_pass_seconds": ready - start,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "parameters": own.parameters,
        "answers": [zlib.crc32(repr(answer).encode()) for answer in answers],
    }
    print(json.dumps(measured))


def count(batches: Sequence[Batch], names: Sequence[str] = ()) -> int:
    """The examples of the batches, or, of the arrays with these names, the elements that are not
    padding."""
    if names:
        return sum(int((batch[name] != 0).sum()) for batch in batches for name in names)
    return sum(int((batch["index"] >= 0).sum()) for batch in batches)


def read(path: str) -> list[Batch]:
    """The batches of a file that `benchmarks.side_by_side.write_batches` wrote."""
    batches: list[Batch] = []
    with np.load(path) as arrays:
        for name in arrays:
            number, _, key = name.partition("/")
            while len(batches) <= int(number):
                batches.append({})
            batches[int(number)][key] = arrays[name]
    return batches
