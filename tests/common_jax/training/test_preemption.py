"""Requests to stop, by real signals."""

import os
import signal
import time
from collections import Counter

import pytest

from common_jax.errors import Interrupted
from common_jax.io import bucket_state
from common_jax.training import preemption
from common_jax.training.preemption import PreemptionHandler


def ask(number):
    os.kill(os.getpid(), number)


def test_repeated_requests_of_a_scheduler_are_one_and_answered_between_steps():
    with PreemptionHandler() as requests:
        for _ in range(3):
            ask(signal.SIGTERM)
        assert requests.received == signal.SIGTERM
        with pytest.raises(Interrupted), requests.interruptible():
            pass


def test_a_second_ctrl_c_is_not_waited_for():
    with PreemptionHandler():
        ask(signal.SIGINT)
        with pytest.raises(Interrupted):
            ask(signal.SIGINT)


def test_a_second_sigterm_after_a_while_is_not_waited_for(monkeypatch):
    with PreemptionHandler():
        ask(signal.SIGTERM)
        monkeypatch.setattr(preemption, "ECHO_SECONDS", 0.0)
        with pytest.raises(Interrupted):
            ask(signal.SIGTERM)


class Silent:
    """A request that is never answered."""

    def result(self, timeout):
        time.sleep(timeout)
        raise TimeoutError


def test_a_request_ends_waiting_for_a_silent_bucket(monkeypatch):
    monkeypatch.setattr(bucket_state, "_states", {})
    monkeypatch.setattr(preemption, "BUCKET_SECONDS", 0.2)
    bucket = bucket_state.state_of("b", Counter)
    bucket.state = "answering"
    alarm = signal.getsignal(signal.SIGALRM)
    with PreemptionHandler(), pytest.raises(Interrupted, match=r"gs://b: no answer for"):
        ask(signal.SIGTERM)
        bucket.answer(Silent)
    assert (
        signal.getsignal(signal.SIGALRM) == alarm and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )
    assert bucket.state == "given up"
