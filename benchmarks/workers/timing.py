"""Common part of the workers: reads a job, times its steps, prints one line of JSON.

Needs only the standard library and NumPy, since it runs in the peers' environments too.
"""

import functools
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from launch.measure.host_memory import host_peak_memory

Batch = dict[str, np.ndarray]


class Work(NamedTuple):
    """A computation to time.

    Attributes:
      step: computes one item, and returns when it is finished; may return the answers to its
        examples, texts or lists of numbers, in a form common to all sides.
      items: batches, in any form.
      units: number of examples or tokens in all items, for the rates.
      parameters: number of trained parameters.
      finish: waits for all steps that a device has not finished.
      kernels: calls a function, and returns the seconds of each of the device's kernels, by name;
        writes a trace to a folder.
    """

    step: Callable[[Any], Sequence[Any] | None]
    items: Sequence[Any]
    units: int
    parameters: int
    finish: Callable[[], None] = lambda: None
    kernels: Callable[[Callable[[], object], str], dict[str, float]] | None = None


def work(make: Callable[[dict[str, Any]], Work]) -> None:
    """Times the job in the JSON file of the first argument, and prints the results.

    Fields of the job: "phase", the step to time; "passes", how often all items are timed, after a
    first pass that is not; or "side", with which rounds are timed as they are asked for (`serve`);
    and the worker's own.
    """
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)

    # The first pass compiles, and gives the answers; it is not in the step's time.
    start = time.perf_counter()
    workload = make(job)
    answers = [answer for item in workload.items for answer in workload.step(item) or ()]
    workload.finish()
    ready = time.perf_counter()
    if "side" in job:
        about = {
            "first_pass_seconds": ready - start,
            "parameters": workload.parameters,
            "versions": {name: metadata.version(name) for name in ("torch", "numpy")},
        }
        serve(about, functools.partial(_round, job["side"], workload), workload.kernels)
        return

    # The timed passes.
    seconds = []
    for _ in range(job["passes"]):
        for item in workload.items:
            before = time.perf_counter()
            workload.step(item)
            seconds.append(time.perf_counter() - before)

    measured = {
        "units": workload.units * job["passes"],
        "seconds": seconds,
        "first_pass_seconds": ready - start,
        "peak_mib": host_peak_memory() / 2**20,
        "parameters": workload.parameters,
        "answers": [zlib.crc32(repr(answer).encode()) for answer in answers],
    }
    print(json.dumps(measured))


def serve(
    about: dict[str, Any],
    one_round: Callable[[int], dict[str, dict[str, float]]],
    kernels: Callable[[Callable[[], object], str], dict[str, float]] | None,
) -> None:
    """Prints `about` when all is compiled, then a line of JSON for each line of standard input: for
    a number, the rates of this round by side; for a folder, the seconds of the kernels of one."""
    print(json.dumps(about), flush=True)
    for line in map(str.strip, sys.stdin):
        if line.isdecimal():
            answer: dict[str, Any] = one_round(int(line))
        else:
            assert kernels is not None
            answer = kernels(functools.partial(one_round, 0), line)
        print(json.dumps(answer), flush=True)


def _round(side: str, workload: Work, number: int) -> dict[str, dict[str, float]]:
    """The rate of one pass over all items."""
    start = time.perf_counter()
    for item in workload.items:
        workload.step(item)
    workload.finish()
    return {side: {"steps_per_second": len(workload.items) / (time.perf_counter() - start)}}


def count(batches: Sequence[Batch], names: Sequence[str] = ()) -> int:
    """The number of examples, or with `names`, of elements in these arrays that are not padding."""
    if names:
        return sum(int((batch[name] != 0).sum()) for batch in batches for name in names)
    return sum(int((batch["index"] >= 0).sum()) for batch in batches)


def read(path: str) -> list[Batch]:
    """The batches of a file of `benchmarks.side_by_side.write_batches`, which may follow."""
    batches: list[Batch] = []
    while not os.path.exists(path):
        time.sleep(0.1)
    with np.load(path) as arrays:
        for name in arrays:
            number, _, key = name.partition("/")
            while len(batches) <= int(number):
                batches.append({})
            batches[int(number)][key] = arrays[name]
    return batches
