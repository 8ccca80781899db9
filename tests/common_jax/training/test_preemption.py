"""Requests to stop, by real signals."""

import os
import signal

import pytest

from common_jax.errors import Interrupted
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
