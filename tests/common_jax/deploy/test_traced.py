"""A run's executables: found without tracing by config, vocabulary, parameters and source alone."""

import dataclasses
import importlib
import os
import sys

import jax
import numpy as np
import pytest

from common_jax.deploy import traced
from common_jax.deploy.bounded_program import BoundedProgram
from common_jax.deploy.executables import FOLDER
from common_jax.deploy.traced import TracedExecutables
from tests.toy import Toy, four_steps

BATCH = {"numbers": np.array([[1, 2, 4]], np.int32)}
MODULE = "traced_toy_module"


@pytest.fixture(autouse=True)
def cache(tmp_path, traces, settled_modules, request):
    """An empty folder of executables, when all modules of jax and numpy are loaded."""
    traces.sums(tmp_path)
    traces.clear()
    return request.getfixturevalue("compilation_cache")


@pytest.fixture
def traces():
    return Traces()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module's file, written long ago."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    file = tmp_path / f"{MODULE}.py"
    rewrite(file, "FACTOR = 2\n")
    yield file
    sys.modules.pop(MODULE, None)


def rewrite(file, text, changed=1.0):
    file.write_text(text)
    os.utime(file, (changed, changed))
    importlib.invalidate_caches()


class Digits(Toy):
    def write_vocabulary(self, folder):
        (folder / "digits.txt").write_text("abcdefghij")


class Traces(list):
    """The shapes for which the toy was traced."""

    def sums(self, folder, task=None, batch=BATCH, scale=1, factor=lambda: 1, **static):
        """The toy's sums by a new function and new executables, as in a new process."""
        task = task or Toy(four_steps(folder))
        row = np.arange(40, dtype=np.float32).reshape(10, 4)
        params = jax.device_put({"table": {"row": scale * row}, "out": np.ones(4, np.float32)})

        def serve(params, arrays):
            self.append(np.shape(arrays["numbers"]))
            return {"sum": factor() * task.predict(params, arrays)}

        stored = TracedExecutables.of(task, params, **static)
        result = BoundedProgram(jax.jit(serve).lower, 1.0, stored)(params, batch)["sum"]
        expected = factor() * scale * row[batch["numbers"]].sum((1, 2))
        np.testing.assert_array_equal(result, expected)


def test_nothing_is_traced_again_unless_the_function_may_be_another(traces, tmp_path):
    traces.sums(tmp_path)
    traces.sums(tmp_path)
    traces.sums(tmp_path, scale=2)  # parameters are inputs
    assert len(traces) == 1
    config = four_steps(tmp_path)
    decoding = Toy(config)
    decoding.decoding = {"beam_size": 2}
    others = (
        {"task": Toy(dataclasses.replace(config, rate=0.2))},
        {"task": Digits(config)},
        {"task": decoding},
        {"beam_size": 2},
        {"batch": {"numbers": np.zeros((2, 3), np.int32)}},
    )
    for count, other in enumerate(others, start=2):
        traces.sums(tmp_path, **other)
        assert len(traces) == count
    with jax.default_matmul_precision("float32"):
        traces.sums(tmp_path)
    assert len(traces) == len(others) + 2


def test_a_changed_source_is_traced_and_the_same_program_is_not_compiled(
    traces, tmp_path, cache, module
):
    importlib.import_module(MODULE)
    traces.sums(tmp_path)
    programs = [*(cache / FOLDER).glob("*/*")]
    rewrite(module, "FACTOR = 2  # a comment\n", changed=2.0)
    traces.sums(tmp_path)
    traces.sums(tmp_path)
    assert len(traces) == 2
    (index,) = {*(cache / FOLDER).glob("*/*")} - {*programs}
    assert index.read_bytes().startswith(b"{")


def test_a_module_that_tracing_loads_is_a_source(traces, tmp_path, module):
    def factor():
        return importlib.import_module(MODULE).FACTOR

    traces.sums(tmp_path, factor=factor)
    sys.modules.pop(MODULE)
    traces.sums(tmp_path, factor=lambda: 2)  # found by the modules that were loaded before
    assert len(traces) == 1
    rewrite(module, "FACTOR = 30\n", changed=2.0)
    traces.sums(tmp_path, factor=factor)
    assert len(traces) == 2


@pytest.mark.parametrize("when", ["before", "while traced"])
def test_a_source_that_was_changed_after_it_was_loaded_is_unknown(traces, tmp_path, module, when):
    importlib.import_module(MODULE)

    def factor():
        if when == "while traced":
            rewrite(module, "FACTOR = 3\n", changed=1e10)
        return 1

    if when == "before":
        rewrite(module, "FACTOR = 3\n", changed=1e10)
    traces.sums(tmp_path, factor=factor)
    rewrite(module, "FACTOR = 2\n")
    traces.sums(tmp_path)
    assert len(traces) == 2


def test_the_source_of_a_notebook_is_unknown(monkeypatch):
    assert traced.sources()[__file__]
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    assert traced.sources() == {}


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"executables": "0", "loaded": {}}'])
def test_a_damaged_entry_is_written_again(traces, tmp_path, cache, damage):
    traces.sums(tmp_path)
    files = [*(cache / FOLDER).glob("*/*")]
    (index,) = (file for file in files if file.read_bytes().startswith(b"{"))
    index.write_bytes(damage)
    traces.sums(tmp_path)
    traces.sums(tmp_path)
    assert len(traces) == 2


def test_parameters_on_several_devices_have_none(tmp_path):
    mesh = jax.make_mesh((2,), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    params = jax.device_put({"table": np.zeros((10, 4), np.float32)}, sharding)
    assert TracedExecutables.of(Toy(four_steps(tmp_path)), params) is None
