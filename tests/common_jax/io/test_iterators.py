"""Iterators with threads: reading ahead, results in order, progress in a log."""

import itertools
import logging
import re
import threading
import time

import pytest

from common_jax.deploy.arrivals import arriving
from common_jax.io import progress as module
from common_jax.io.progress import progress
from common_jax.io.threads import threaded_map


def test_an_item_that_has_arrived_is_not_held_back():
    needed = threading.Event()

    def items():
        yield 1
        assert needed.wait(timeout=20)  # only after the first list has been used
        yield from (2, 3)
        raise ValueError("broken")

    lists = arriving(items(), 10)
    assert next(lists) == [1]
    needed.set()
    read = []
    with pytest.raises(ValueError, match="broken"):
        read.extend(itertools.chain.from_iterable(lists))
    assert read == [2, 3]


def test_lists_fill_while_items_wait():
    lists = list(arriving(iter(range(100)), 30))
    assert [item for batch in lists for item in batch] == list(range(100))
    assert max(map(len, lists)) == 30


def test_the_thread_ends_when_nothing_more_is_needed():
    before = threading.active_count()
    lists = arriving(iter(range(10**9)), 2)
    next(lists)
    lists.close()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(timeout=2)
    assert threading.active_count() <= before


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


@pytest.fixture
def lines(caplog, monkeypatch):
    """The messages, at intervals of no time; standard error is not a terminal here."""
    monkeypatch.setattr(module, "SECONDS", 0.0)
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records]


def test_lines_of_progress_have_the_time_left_where_the_total_is_known(lines):
    assert list(progress("abcd", "encoding", "pairs", total=4)) == [*"abcd"]
    pattern = r"encoding: (\d) pairs, [\d,]+ a second, \d+ % of 4, \d+:\d\d:\d\d left"
    counts = [re.fullmatch(pattern, line)[1] for line in lines()]
    assert {"1", "2", "3"} <= {*counts} and counts == sorted(counts)
    before = len(counts)
    assert list(progress(iter("abc"), "reading", "pairs")) == [*"abc"]
    rest = lines()[before:]
    assert rest and all(re.fullmatch(r"reading: \d pairs, [\d,]+ a second", x) for x in rest)


@pytest.mark.parametrize(
    "place,name,value", [(module, "SECONDS", 60.0), (logging.root.manager, "disable", logging.INFO)]
)
def test_short_and_quiet_loops_write_nothing(lines, monkeypatch, place, name, value):
    monkeypatch.setattr(place, name, value)
    assert sum(progress(range(1000), "reading", "pairs")) == 499500 and not lines()


def test_progress_leaves_no_thread(monkeypatch):
    monkeypatch.setattr("tqdm.std.tqdm.monitor", None)  # that of an earlier bar would serve
    before = threading.active_count()
    assert [*progress(range(3), "reading", "lines")] == [0, 1, 2]
    assert threading.active_count() == before
