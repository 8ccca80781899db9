"""Waiting for a bucket that does not answer, by a clock that the requests advance."""

import types
from collections import Counter
from typing import Any

import pytest

from common_jax.io import bucket_state
from common_jax.io.bucket_state import BucketState, give_up_silent, lost_bucket
from tests.refusals import refusal


class Clock:
    """The time, and a request that is never answered: waiting for it takes the time."""

    def __init__(self):
        self.now, self.events = 0.0, {}
        self.failing, self.failures = True, Counter()

    def result(self, timeout):
        self.now += timeout
        self.failures["429"] += self.failing
        for time in [time for time in self.events if time <= self.now]:
            self.events.pop(time)()
        raise TimeoutError


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(bucket_state, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(bucket_state, "_states", {})
    return clock


@pytest.fixture
def bucket(clock):
    """A bucket that has answered once."""
    state = bucket_state.state_of("b", lambda: clock.failures.copy())
    answered = types.SimpleNamespace(result=lambda timeout: "answer")
    assert state.answer(lambda: answered) == "answer"
    return state


def refused(bucket: BucketState, request: Any, seconds: float = 0.0) -> str:
    return refusal(bucket.answer, lambda: request, seconds)


def test_a_long_wait_has_a_line_and_ends_and_later_requests_are_tried_once(bucket, clock, caplog):
    caplog.set_level("INFO")  # which a quiet command of an earlier test disables
    assert refused(bucket, clock) == "gs://b: HTTP status 429 for 300 s"
    assert 300 < clock.now <= 301
    (record,) = caplog.records
    assert record.message == "gs://b: HTTP status 429 since 30 s; given up after 300 s"
    assert bucket.state == "given up" and lost_bucket() == "gs://b: HTTP status 429 for 300 s"
    for _ in range(3):
        refused(bucket, clock)
    assert clock.now < 310 and len(caplog.records) == 1


def test_requests_during_a_silence_share_its_limit(bucket, clock):
    clock.events[250.0] = lambda: refused(bucket, clock)
    refused(bucket, clock)
    assert clock.now < 302


def test_an_answer_ends_the_silence_of_others(bucket, clock):
    answered = types.SimpleNamespace(result=lambda timeout: "answer")
    clock.events[100.0] = lambda: bucket.answer(lambda: answered)
    clock.events[120.0] = lambda: silences.append(bucket.silent_seconds)
    silences = []
    refused(bucket, clock)
    assert silences == [20.0]


def test_a_large_object_may_take_longer_unless_requests_fail(bucket, clock):
    clock.failing = False
    assert refused(bucket, clock, 1000.0) == "gs://b: no answer for 1300 s"
    bucket.state, clock.failing, began = "answering", True, clock.now
    assert refused(bucket, clock, 1000.0) == "gs://b: HTTP status 429 for 300 s"
    assert clock.now - began <= 301


def test_a_silent_bucket_is_given_up_on_demand(bucket, clock):
    assert give_up_silent(10.0) == ""
    given_up = []
    clock.events[5.0] = lambda: given_up.append(give_up_silent(10.0))
    clock.events[12.0] = lambda: given_up.append(give_up_silent(10.0))
    assert refused(bucket, clock) == "gs://b: HTTP status 429 for 12 s"
    assert given_up == ["", "gs://b: HTTP status 429 for 12 s"] and clock.now < 13


def test_a_bucket_that_never_answered_is_not_waited_for(clock):
    state = bucket_state.state_of("new", lambda: clock.failures.copy())
    assert refused(state, clock) == "gs://new: no answer for 30 s"
    assert state.state == "new" and lost_bucket() == ""
