"""Reading ahead: what has arrived is a list, and errors come after the items before them."""

import threading

import pytest

from common_jax.io.arrivals import arriving


def test_an_item_that_has_arrived_is_not_held_back():
    needed = threading.Event()

    def items():
        yield 1
        assert needed.wait(timeout=20)  # only after the first list has been used
        yield 2
        yield 3

    lists = arriving(items(), 10)
    assert next(lists) == [1]
    needed.set()
    assert [item for batch in lists for item in batch] == [2, 3]


def test_lists_fill_while_items_wait():
    lists = list(arriving(iter(range(100)), 30))
    assert [item for batch in lists for item in batch] == list(range(100))
    assert max(map(len, lists)) == 30


def test_an_error_follows_the_items_before_it():
    def items():
        yield 1
        raise ValueError("broken")

    lists = arriving(items(), 10)
    assert next(lists) == [1]
    with pytest.raises(ValueError, match="broken"):
        next(lists)


def test_the_thread_ends_when_nothing_more_is_needed():
    before = threading.active_count()
    lists = arriving(iter(range(10**9)), 2)
    next(lists)
    lists.close()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(timeout=2)
    assert threading.active_count() <= before
