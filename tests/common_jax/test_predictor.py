"""Batches in parallel, and the limit of their memory."""

import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax import memory_maps
from common_jax.predictor import BoundedProgram, InputTooLargeError, outputs_of


def test_outputs_are_in_the_order_of_the_batches_and_computed_at_once():
    both = threading.Barrier(2, timeout=30)  # passed only by two computations at a time

    def compute(batch):
        both.wait()
        return {"double": batch["x"] * 2}

    batches = [{"x": np.array([number])} for number in range(6)]
    assert [int(out["double"][0]) for out in outputs_of(compute, batches, 2)] == [*range(0, 12, 2)]


@pytest.mark.parametrize("at_once", [1, 3])
def test_the_error_of_a_batch_is_raised_in_its_turn(at_once):
    def compute(batch):
        if batch["x"] == 1:
            raise InputTooLargeError("too long")
        return batch

    outputs = outputs_of(compute, [{"x": number} for number in range(4)], at_once)
    assert next(outputs) == {"x": 0}
    with pytest.raises(InputTooLargeError):
        next(outputs)


def test_a_shape_is_compiled_once_for_all_threads():
    traces = []

    @jax.jit
    def square(_, arrays):
        traces.append(arrays["x"].shape)
        return {"y": jnp.square(arrays["x"])}

    program = BoundedProgram(square.lower, 1.0)
    batches = [{"x": np.full(3 + number % 2, number)} for number in range(8)]
    results = [*outputs_of(lambda batch: program({}, batch), batches, 4)]
    assert [int(result["y"][0]) for result in results] == [n**2 for n in range(8)]
    assert sorted(traces) == [(3,), (4,)]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the maps of a process")
def test_programs_are_released_before_the_memory_maps_are_used_up(tmp_path, monkeypatch):
    @jax.jit
    def many_kernels(_, arrays):
        x = arrays["x"]
        for number in range(10):
            x = jnp.tanh(x @ x.T @ x) / jnp.sum(x, 0, keepdims=True) + jax.nn.softmax(x * number)
        return {"y": x}

    maps = lambda: len(memory_maps._MAPS.read_text().splitlines())
    run = lambda size: BoundedProgram(many_kernels.lower, 1.0)({}, {"x": np.eye(size)})
    kept = [run(size) for size in (3, 4)]
    before = maps()
    kept += [run(size) for size in (5, 6)]
    each = (maps() - before) // 2
    assert each > 5
    limit = tmp_path / "limit"
    limit.write_text(str(2 * (before + 4 * each)))
    monkeypatch.setattr(memory_maps, "_LIMIT", limit)
    program = BoundedProgram(many_kernels.lower, 1.0)
    most = 0
    for size in range(7, 19):
        result = program({}, {"x": np.eye(size)})
        assert result["y"].shape == (size, size)
        most = max(most, maps())
    assert most < before + 6 * each
