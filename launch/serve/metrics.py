"""Counters and histograms in Prometheus's text format."""

import bisect
import collections
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Counter:
    """A number for each combination of labels, which only grows."""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()):
        self.name, self.help, self.labels = name, help, labels
        self.values: collections.Counter[tuple[str, ...]] = collections.Counter()

    def add(self, *labels: str, by: int = 1) -> None:
        self.values[labels] += by

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, "counter")
        for labels, value in sorted(self.values.items()):
            yield f"{self.name}{_labelled(self.labels, labels)} {value}"


class Histogram:
    """The distribution of a quantity for each combination of labels.

    Attributes:
      bounds: upper bounds of the buckets, ascending.
    """

    def __init__(self, name: str, help: str, bounds: Sequence[float], labels: Sequence[str] = ()):
        self.name, self.help, self.bounds, self.labels = name, help, bounds, labels
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *labels: str) -> None:
        counts = self._counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect.bisect_left(self.bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, "histogram")
        names = (*self.labels, "le")
        bounds = [f"{bound:g}" for bound in self.bounds]
        for labels, counts in sorted(self._counts.items()):
            totals = [*itertools.accumulate(counts)]
            for bound, total in zip((*bounds, "+Inf"), totals, strict=True):
                yield f"{self.name}_bucket{_labelled(names, (*labels, bound))} {total}"
            own = _labelled(self.labels, labels)
            yield f"{self.name}_sum{own} {self._sums[labels]:.6g}"
            yield f"{self.name}_count{own} {totals[-1]}"


class Gauge:
    """The current values of a quantity, read when they are written."""

    def __init__(
        self,
        name: str,
        help: str,
        read: Callable[[], Iterable[tuple[tuple[str, ...], int]]],
        labels: Sequence[str] = (),
    ):
        self.name, self.help, self.labels, self._read = name, help, labels, read

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, "gauge")
        for labels, value in self._read():
            yield f"{self.name}{_labelled(self.labels, labels)} {value}"


class Metrics:
    """Everything that a server counts.

    Attributes:
      in_flight: requests that have not been answered.
      gauges: `Service` adds one for the inputs that wait.
    """

    def __init__(self) -> None:
        self.requests = Counter("serve_requests_total", "Requests answered.", ("model", "status"))
        self.inputs = Counter("serve_inputs_total", "Inputs answered.", ("model",))
        self.seconds = Histogram(
            "serve_request_seconds", "Time of predictions.", SECONDS, ("model",)
        )
        self.batches = Histogram("serve_batch_inputs", "Inputs computed at once.", BATCHES)
        self.in_flight = 0
        in_flight = lambda: [((), self.in_flight)]
        self.gauges = [
            Gauge("serve_requests_in_flight", "Requests not answered.", in_flight),
            Gauge("process_resident_memory_bytes", "Memory of the process.", _memory),
        ]

    def text(self) -> str:
        """All of them, as Prometheus reads it."""
        families: list[Counter | Histogram | Gauge] = [self.requests, self.inputs]
        families += [self.seconds, self.batches, *self.gauges]
        return "".join(f"{line}\n" for family in families for line in family.lines())


def _memory() -> Iterator[tuple[tuple[str, ...], int]]:
    """Bytes of this process in memory; nothing where /proc does not have it."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        for line in Path("/proc/self/status").read_text("ascii", "replace").splitlines():
            if line.startswith("VmRSS:"):
                yield (), int(line.split()[1]) * 1024


def _head(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _labelled(names: Sequence[str], values: Sequence[str]) -> str:
    """The labels of a sample; values are model names, numbers and statuses, free of quotes."""
    pairs = ",".join(f'{name}="{value}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""
