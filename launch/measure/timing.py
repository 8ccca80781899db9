"""Timing of calls on this machine, and tables of the results."""

import math
import os
import random
import statistics
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from launch.text_table import Row

ROUNDS = (3, 60)  # minimum and maximum
SECONDS_A_LENGTH = 8.0  # time limit of the rounds
SHORTEST_SAMPLE = 0.01  # seconds; shorter calls are repeated to fill it


def machine(busy: float) -> Row:
    """Devices, load and versions of the machine.

    Args:
      busy: the load average before the measurements.
    """
    import jax

    return {
        "device": jax.devices()[0].device_kind,
        "devices": jax.device_count(),
        "cpu_cores": os.cpu_count(),
        "load_before": round(busy, 2),
        "versions": {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy")},
    }


def medians(calls: Mapping[str, Callable[[], Any]], rounds: int | None) -> dict[str, float]:
    """The median seconds of each call, in interleaved rounds.

    Args:
      calls: functions by name; a call is timed until its result is ready.
      rounds: number of rounds; None is as many as fit in `SECONDS_A_LENGTH`, within `ROUNDS`.
    """
    repeats = {name: _repeats(call) for name, call in calls.items()}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    least, most = (rounds, rounds) if rounds else ROUNDS
    order = list(calls)
    start = time.perf_counter()
    for number in range(most):
        if number >= least and time.perf_counter() - start > SECONDS_A_LENGTH:
            break
        random.Random(number).shuffle(order)
        for name in order:
            _seconds(calls[name])  # a warm-up after the other calls' use of caches and heap
            samples[name].append(_seconds(calls[name], repeats[name]))
    return {name: statistics.median(seconds) for name, seconds in samples.items()}


def _repeats(call: Callable[[], Any]) -> int:
    """The number of calls that take at least `SHORTEST_SAMPLE`."""
    once = _seconds(call)
    return 1 if once > SHORTEST_SAMPLE else math.ceil(SHORTEST_SAMPLE / _seconds(call))


def _seconds(call: Callable[[], Any], repeats: int = 1) -> float:
    """The mean seconds of a call."""
    import jax

    start = time.perf_counter()
    for _ in range(repeats):
        result = call()
    jax.block_until_ready(result)
    return (time.perf_counter() - start) / repeats
