"""Batches in parallel, and the limit of their memory."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.errors import UserError
from common_jax.predictor import BoundedProgram, InputTooLargeError, outputs_of

QUICK = "JAX_DISABLE_MOST_OPTIMIZATIONS"  # programs with few kernels


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


@pytest.mark.parametrize("outputs", [{}, {"y": 1.0}, {"y": np.ones(2)}, {"y": np.ones((1, 3))}])
def test_a_program_without_the_outputs_is_refused(outputs):
    batches = [{"x": np.ones((2, 5))}]
    with pytest.raises(UserError, match=r"^the program has no output 'y' with a row"):
        next(outputs_of(lambda _: outputs, batches, 1, ["y"]))
    assert next(outputs_of(lambda _: {"y": np.ones((2, 3))}, batches, 1, ["y"]))["y"].sum() == 6


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


MANY_SHAPES = """
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from common_jax import memory_maps
from common_jax.errors import UserError
from common_jax.predictor import BoundedProgram


@jax.jit
def many_kernels(_, arrays):
    x = arrays["x"]
    for number in range(20):
        x = jnp.tanh(x @ x.T @ x) / jnp.sum(x, 0, keepdims=True) + jax.nn.softmax(x * number)
    return {"y": x}


maps = lambda: len(memory_maps._MAPS.read_text().splitlines())
program = BoundedProgram(many_kernels.lower, 1.0)
run = lambda size: program({}, {"x": np.eye(size)})["y"].shape
counts = []
for size in range(3, 15):
    assert run(size) == (size, size)
    counts.append(maps())
    if len(counts) == 2:
        first, second = counts
        memory_maps._LIMIT = Path(sys.argv[1])
        memory_maps._LIMIT.write_text(str(2 * (second + 2 * (second - first))))
print(max(counts) - first, second - first)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the maps of a process")
def test_programs_are_released_before_the_memory_maps_are_used_up(tmp_path):
    env = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", QUICK)}
    command = [sys.executable, "-c", MANY_SHAPES, tmp_path / "limit"]
    printed = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    most, each = map(int, printed.split())
    assert each > 50 and most < 5 * each  # twelve programs would have eleven times as many
