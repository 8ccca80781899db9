"""The load benchmark: clients of a toy server, and the figures."""

import json

import pytest

from benchmarks import serve
from benchmarks.workers import load
from tests.launch.serve.toy_server import running


def test_clients_time_each_request():
    bodies = [json.dumps({"inputs": [text]}) for text in ("one", "one two")]
    with running(queue=64) as (port, _):
        job = {"port": port, "path": "/v1/models/toy:predict", "bodies": bodies}
        result = load.main({**job, "clients": 3, "requests": 20})
        assert len(result["seconds"]) == 20 and 0 < max(result["seconds"]) <= result["total"]
        assert serve._memory(port) > 2**20
        with pytest.raises(RuntimeError, match="no such model"):
            load.main({**job, "path": "/v1/models/no:predict", "clients": 1, "requests": 1})


def test_figures_are_percentiles_and_medians_over_rounds():
    figures = serve.figures([n / 1000 for n in range(1, 101)], 2.0)
    assert figures == {"requests_per_second": 50, "p50_ms": 51, "p95_ms": 96, "p99_ms": 100}
    rows = [
        {"round": n, "clients": 8, "side": "batches", **figures, "p50_ms": 10.0 * n}
        for n in range(3)
    ]
    (row,) = serve.summary(rows)
    assert row == {"clients": 8, "side": "batches", **figures, "p50_ms": 10.0}
