"""Communication between processes, simulated by threads and a queue as JAX's service.

Real processes are in tests/launch/test_processes.py and tests/nightly/launch.
"""

import importlib.util
import queue
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest

from common_jax.errors import UserError
from common_jax.training import multihost


class Service(defaultdict):
    """JAX's key-value service: reading a key waits until it is set."""

    def __init__(self):
        super().__init__(queue.Queue)

    def key_value_set(self, key, value):
        self[key].put(value)

    def blocking_key_value_get(self, key, milliseconds):
        value = self[key].get(timeout=60)
        self[key].put(value)  # for the other processes
        return value


@pytest.fixture
def several():
    """Three copies of the module, one for each process, with their own counters."""
    service = Service()
    modules = []
    for number in range(3):
        spec = importlib.util.spec_from_file_location(f"process{number}", multihost.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.jax = mock.Mock(**{"process_count.return_value": 3})
        module.jax.process_index.return_value = number
        module._client = lambda: service
        modules.append(module)
    return modules


def in_each(modules, call):
    """The result of `call` in each process, or its error message."""

    def outcome(number):
        try:
            return call(modules[number], number)
        except UserError as error:
            return str(error)

    with ThreadPoolExecutor(len(modules)) as pool:
        return list(pool.map(outcome, range(len(modules))))


def refused(number, last):
    if number == last:
        raise UserError("no such file")
    return number


def test_each_process_has_the_values_of_all_or_the_mistake_of_one(several):
    assert in_each(several, lambda m, n: m.gather_from_all(lambda: 10 * n)) == [[0, 10, 20]] * 3
    messages = in_each(several, lambda m, n: m.gather_from_all(lambda: refused(n, 1)))
    assert messages == ["process 1: no such file"] * 3
    assert in_each(several, lambda m, n: m.gather_from_all(lambda: n)) == [[0, 1, 2]] * 3


def test_the_first_alone_calls_and_all_have_its_result_or_mistake(several):
    called = []

    def call(module, number):
        inner = lambda: module.broadcast_from_first(lambda: called.append(number) or number)
        return module.broadcast_from_first(inner)

    assert in_each(several, call) == [0, 0, 0] and called == [0]
    messages = in_each(several, lambda m, n: m.broadcast_from_first(lambda: refused(n, 0)))
    assert messages == ["no such file"] * 3
    assert in_each(several, lambda m, n: m.broadcast_from_first(lambda: refused(n, 1))) == [0] * 3


def test_one_process_does_not_communicate():
    assert multihost.gather_from_all(lambda: 1) == [1]
    assert multihost.broadcast_from_first(lambda: 2) == 2
    assert multihost.is_first() and not multihost.is_multiprocess()
