"""Progress in a log: a line at each interval, with the time left if the total is known."""

import logging
import re
import threading

import pytest

from common_jax.io import progress as module
from common_jax.io.progress import progress


@pytest.fixture
def lines(caplog, monkeypatch):
    """The messages, at intervals of no time; standard error is not a terminal here."""
    monkeypatch.setattr(module, "SECONDS", 0.0)
    caplog.set_level(logging.INFO)
    return lambda: [record.getMessage() for record in caplog.records]


def test_lines_with_the_time_left(lines):
    assert list(progress("abcd", "encoding", "pairs", total=1004, done=1000)) == [*"abcd"]
    pattern = r"encoding: (1,00\d) pairs, [\d,]+ a second, 100 % of 1,004, \d+:\d\d:\d\d left"
    counts = [re.fullmatch(pattern, line)[1] for line in lines()]
    assert {"1,001", "1,002", "1,003"} <= {*counts} and counts == sorted(counts)


def test_the_time_left_is_that_of_the_rate_of_this_process():
    state = dict(n=3000, total=9000, elapsed=100.0, initial=1000, prefix="encoding train")
    line = module._log_line(state, "pairs")
    assert line == "encoding train: 3,000 pairs, 20 a second, 33 % of 9,000, 0:05:00 left"


def test_without_a_total_there_is_a_rate(lines):
    assert list(progress(iter("abc"), "reading", "pairs")) == [*"abc"]
    assert lines() and all(re.fullmatch(r"reading: \d pairs, [\d,]+ a second", x) for x in lines())


def test_short_loops_write_nothing(lines, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 60.0)
    assert sum(progress(range(1000), "reading", "pairs")) == 499500 and not lines()


def test_quiet_writes_nothing(lines, monkeypatch):
    monkeypatch.setattr(logging.root.manager, "disable", logging.INFO)
    assert list(progress(range(3), "reading", "pairs")) == [0, 1, 2] and not lines()


def test_no_thread_stays_behind(monkeypatch):
    monkeypatch.setattr("tqdm.std.tqdm.monitor", None)  # that of an earlier bar would serve
    before = threading.active_count()
    assert [*progress(range(3), "reading", "lines")] == [0, 1, 2]
    assert threading.active_count() == before
