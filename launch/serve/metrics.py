"""Metrics of a server, for Prometheus."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BATCHES = (1, 2, 4, 8, 16, 32, 64)

disable_created_metrics()  # else each counter has a second series with the time of its creation


class Metrics:
    """The metrics of one server, and those of its process.

    Attributes:
      requests: answered requests, by model and status.
      inputs: answered inputs, by model.
      seconds: time of predictions, by model.
      batches: sizes of batches.
      waiting: inputs that wait, by model.
      in_flight: requests that have not been answered.
    """

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "serve_requests_total", "Requests answered.", ["model", "status"], registry=registry
        )
        self.inputs = Counter(
            "serve_inputs_total", "Inputs answered.", ["model"], registry=registry
        )
        self.seconds = Histogram(
            "serve_request_seconds",
            "Time of predictions.",
            ["model"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.batches = Histogram(
            "serve_batch_inputs", "Inputs computed at once.", buckets=_BATCHES, registry=registry
        )

        # at this moment
        self.in_flight = Gauge(
            "serve_requests_in_flight", "Requests not answered.", registry=registry
        )
        self.waiting = Gauge(
            "serve_inputs_waiting", "Inputs that wait.", ["model"], registry=registry
        )
        ProcessCollector(registry=registry)

    def text(self) -> str:
        """All metrics in Prometheus's text format."""
        return generate_latest(self._registry).decode()
