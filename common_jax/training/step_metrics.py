"""Metrics of the training steps between two lines of the log, and where the time goes."""

import contextlib
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh

from common_jax.training.run_folder import RunFolder
from common_jax.training.step import Metrics

T = TypeVar("T")


class StallTimer:
    """Seconds that training took for other things than steps, by cause; a base of other meters."""

    def __init__(self) -> None:
        causes = ("compiling_seconds", "data_seconds", "validating_seconds", "saving_seconds")
        self._seconds = dict.fromkeys(causes, 0.0)

    def measured(self, train_step: Any, mesh: Mesh, run: RunFolder, step: int) -> Any:
        """The training step, as `make_train_step`; `step` is the last one taken."""
        return train_step

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

    def reset(self, seconds: float) -> dict[str, float]:
        """Returns the seconds since the last call, those of the steps first, and resets them.

        Args:
          seconds: of the steps, with compiling and waiting for data.
        """
        causes = self._seconds
        self._seconds = dict.fromkeys(causes, 0.0)
        steps = seconds - causes["compiling_seconds"] - causes["data_seconds"]
        return {name: round(v, 6) for name, v in {"step_seconds": steps, **causes}.items()}


class MetricsWindow:
    """The steps since the last log line.

    Attributes:
      latest: the metrics of the last call, or None.
      seconds: from the first step to the last call of `values`.
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
        self.seconds = time.monotonic() - self._began

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
            "steps_per_second": len(bad) / self.seconds,
            f"{unit}_per_second": real / self.seconds,
            "padding_fraction": 1 - real / positions,
        }
