"""Metrics and waiting times of the training steps between two lines of the log."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

import jax
import numpy as np

from common_jax.training.step import Metrics

T = TypeVar("T")


class StallTimer:
    """Seconds that training waited, by cause."""

    def __init__(self) -> None:
        self._seconds = {"data_seconds": 0.0, "saving_seconds": 0.0}

    @contextlib.contextmanager
    def at(self, cause: str) -> Iterator[None]:
        """Adds the seconds of a block to those of a cause."""
        began = time.monotonic()
        yield
        self._seconds[cause] += time.monotonic() - began

    def over(self, cause: str, items: Iterable[T]) -> Iterator[T]:
        """Iterates over the items and adds the time of waiting for each to that of a cause."""
        items = iter(items)
        while True:
            with self.at(cause):
                item = next(items, None)
            if item is None:
                return
            yield item

    def reset(self) -> dict[str, float]:
        """Returns the seconds since the last call and resets them."""
        totals = {cause: round(seconds, 6) for cause, seconds in self._seconds.items()}
        self._seconds = dict.fromkeys(totals, 0.0)
        return totals


class MetricsWindow:
    """The steps since the last log line.

    Attributes:
      latest: the metrics of the last call, or None.
    """

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        """Begins with the next step."""
        self._metrics: list[Metrics] = []
        self._began = time.monotonic()
        self.latest: Metrics | None = None

    def add(self, metrics: Metrics) -> None:
        """Adds the steps of a call."""
        self.latest = metrics
        self._metrics.append(metrics)

    def values(self, unit: str) -> dict[str, float | None]:
        """Means over the applied steps (None without any), throughput, and share of padding."""
        # the values of all steps of the window
        calls = jax.device_get(self._metrics)
        steps = {name: np.concatenate([call[name] for call in calls]) for name in calls[0]}
        seconds = time.monotonic() - self._began

        # those that are not averaged
        rate = steps.pop("learning_rate")[-1]
        bad = steps.pop("bad_steps") > 0
        real, positions = (float(steps.pop(name).sum()) for name in ("real", "positions"))

        # the means over the applied steps
        means = {
            name: float(values[~bad].mean()) for name, values in steps.items() if not bad.all()
        }
        return {
            **(means or dict.fromkeys(steps)),
            "learning_rate": float(rate),
            **({"bad_steps": int(bad.sum())} if bad.any() else {}),
            "steps_per_second": len(bad) / seconds,
            f"{unit}_per_second": real / seconds,
            "padding_fraction": 1 - real / positions,
        }
