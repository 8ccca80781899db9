"""Results of threads in the order of the items, of which few are read ahead."""

import time

import pytest

from common_jax.io.threads import threaded_map


def test_the_order_is_that_of_the_items_and_few_are_read_ahead():
    read = []
    items = (read.append(n) or n for n in range(20))
    slow_first = lambda n: time.sleep(0.02 * (n % 3 == 0)) or n * n
    for number, result in enumerate(threaded_map(slow_first, items, 2)):
        assert result == number * number
        assert len(read) <= number + 4
    assert number == 19


def test_an_error_of_a_thread_or_of_the_items_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(threaded_map(lambda n: 1 // n, [1, 0, 1], 2))
    broken = (1 // n for n in (1, 1, 0))
    with pytest.raises(ZeroDivisionError):
        list(threaded_map(abs, broken, 2))
