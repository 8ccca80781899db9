"""The load benchmark and the comparison with other toolkits, whose workers run at night."""

import json

import numpy as np
import pytest

from benchmarks import pages, qanet_pytorch, serve
from benchmarks.side_by_side import Measure, arguments, compare, with_equal_answers, write_batches
from benchmarks.workers import load
from benchmarks.workers.timing import count, read
from common_jax.errors import UserError
from tests.launch.serve.toy_server import running

BATCHES = [
    {"index": np.array([4, -1], np.int32), "first": np.array([[7, 8, 0], [0, 0, 0]], np.int32)},
    {"index": np.array([1, 2], np.int32), "first": np.array([[5, 0], [6, 9]], np.int32)},
]


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
    (row,) = pages.served(rows)
    assert row == {"clients": 8, "side": "batches", **figures, "p50_ms": 10.0}


def test_batches_are_read_as_they_were_written(tmp_path):
    write_batches(tmp_path / "b.npz", BATCHES)
    again = read(str(tmp_path / "b.npz"))
    assert [list(batch) for batch in again] == [["index", "first"]] * 2
    for batch, own in zip(again, BATCHES, strict=True):
        for name in own:
            np.testing.assert_array_equal(batch[name], own[name])
    assert count(again) == 3 and count(again, ["first"]) == 5


def test_answers_are_compared_with_the_suites_of_the_same_measure():
    answers = {"suite": [1, 2, 3, 4], "peer": [1, 5, 3, 4]}
    rows = [{"measure": "a", "side": side, "answers": answers[side]} for side in answers]
    rows += [{"measure": "b", "side": side, "answers": []} for side in answers]
    first, second, *others = with_equal_answers(rows)
    assert first == {"measure": "a", "side": "suite", "equal_answers": 1.0}
    assert second == {"measure": "a", "side": "peer", "equal_answers": 0.75}
    assert others == [{"measure": "b", "side": side} for side in answers]


def test_only_some_measures(tmp_path):
    args = arguments("").parse_args(["--data", str(tmp_path), "--only", "search"])
    measures = [Measure(name, "train", BATCHES) for name in ("training", "answers")]
    with pytest.raises(UserError, match=r"--only search: fits none of training \| answers"):
        compare(args, "peers", [], measures, [])


def test_full_length_batches_repeat_their_own_words():
    batch = {
        "index": np.array([0]),
        "context": np.array([[3, 4, 5]]),
        "context_characters": np.array([[[1, 2], [3, 4], [5, 6]]]),
        "question": np.array([[9]]),
    }
    longer = qanet_pytorch.padded(batch)
    assert longer["context"].shape == (1, 400) and longer["question"].shape == (1, 50)
    assert longer["context"][0, :7].tolist() == [3, 4, 5, 3, 4, 5, 3]
    assert longer["context_characters"][0, 4].tolist() == [3, 4]
