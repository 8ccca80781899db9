"""The memory maps of a process that compiles many programs."""

import os
import subprocess
import sys

import pytest

MANY_SHAPES = """
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from common_jax.deploy import memory_maps
from common_jax.errors import UserError
from common_jax.deploy.bounded_program import BoundedProgram


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


FEW_KERNELS = ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")


@pytest.mark.skipif(sys.platform != "linux", reason="limits the maps of a process")
def test_programs_are_released_before_the_memory_maps_are_used_up(tmp_path):
    env = {k: v for k, v in os.environ.items() if k not in FEW_KERNELS}
    command = [sys.executable, "-c", MANY_SHAPES, tmp_path / "limit"]
    printed = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    most, each = map(int, printed.split())
    assert each > 50 and most < 5 * each  # twelve programs would have eleven times as many
