"""The lock in a bucket: one holder, by preconditions alone."""

import time

import pytest

from common_jax.errors import UserError
from common_jax.io import guards, lease, lock
from common_jax.io.paths import as_path
from tests.bucket.emulator import BUCKET

URL = f"gs://{BUCKET}/run/lock"


@pytest.fixture
def path(service, monkeypatch):
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(lease, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(lease, "_RENEWAL_SECONDS", 0.2)
    monkeypatch.setattr(lease, "_POLL_SECONDS", 0.1)
    return as_path(URL)


def lease_of(path):
    return lease.Lease(path.parent, lease.ObjectRecord(path.key))


def stopped(path):
    """A lock whose process has ended without releasing it."""
    held = lease_of(path)
    assert held.acquire() == ""
    held._ended.set()
    guards._guards.clear()
    return held


def test_a_lock_has_one_holder_until_it_is_released(path, service):
    first, second = lease_of(path), lease_of(path)
    assert first.acquire() == ""
    assert second.acquire() == lease.holder(first._content)
    time.sleep(2.5)  # renewed meanwhile
    assert second.acquire() == lease.holder(first._content)
    first.require()
    first.release()
    assert service.generation("run/lock") == "0"
    assert second.acquire() == ""
    second.release()


def test_a_lock_that_is_not_renewed_is_taken_over_and_its_process_stops_writing(path):
    asleep = stopped(path)
    began = time.monotonic()
    second = lease_of(path)
    assert second.acquire() == ""
    assert time.monotonic() - began >= 2
    with pytest.raises(UserError, match=r"did not renew its lock .* has taken it over"):
        asleep.require()
    guards.add(path.parent, asleep.require)
    with pytest.raises(UserError, match="did not renew its lock"):
        (path.parent / "metrics").write_text("lost")
    assert not (path.parent / "metrics").exists()
    asleep.release()
    second.require()
    second.release()


def test_a_holder_that_slept_less_renews_and_goes_on(path):
    held = stopped(path)
    time.sleep(1)
    held.require()
    held.release()


def test_an_answer_that_was_lost_does_not_lose_the_lock(path, service):
    """A repeated write fails its own precondition: the service answers 412."""
    service.failure_rate = 0.5
    held = lease_of(path)
    assert held.acquire() == ""
    for _ in range(8):
        held._renew()
        held.require()
    assert service.requests["POST 412"] > 0
    service.failure_rate = 0.0
    held.release()


def test_a_process_may_acquire_its_own_lock_again(path, service):
    assert lock.acquire(path) == "" == lock.acquire(path)
    lock.release(path)
    assert service.generation("run/lock") == "0"
    assert lock.acquire(path, keep=False) == ""
    assert service.generation("run/lock") == "0"
