"""Leases, by records on a disk and in a bucket: contenders, late writes, errors."""

import errno
import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.io import guards, lease, lock
from common_jax.io.atomic import writing
from common_jax.io.bucket_folder import ObjectRecord
from common_jax.io.storage import folder_of
from tests.bucket.emulator import BUCKET
from tests.nightly.bucket.machines import emulator, service  # noqa: F401

SECONDS = {"disk": 0.6, "bucket": 2.0}  # of a lease; requests to the emulator take a while


@pytest.fixture(params=["disk", "bucket"])
def storage(request, monkeypatch):
    seconds = SECONDS[request.param]
    monkeypatch.setattr(lease, "LEASE_SECONDS", seconds)
    monkeypatch.setattr(lease, "_RENEWAL_SECONDS", seconds / 10)
    monkeypatch.setattr(lease, "_POLL_SECONDS", seconds / 20)
    return request.param


@pytest.fixture
def folder(storage, request, tmp_path, monkeypatch):
    if storage == "disk":
        return folder_of(tmp_path)
    environment = request.getfixturevalue("service").environment
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return folder_of(f"gs://{BUCKET}/run")


on_disk = pytest.mark.parametrize("storage", ["disk"], indirect=True)


def record_of(folder):
    if isinstance(folder.path, Path):
        return lease.FolderRecord(folder.path / "lock.lease")
    return ObjectRecord(folder.path / "lock")


def lease_of(folder):
    return lease.Lease(folder.path, record_of(folder))


def stopped(folder):
    """A lease whose process has ended, or sleeps, without releasing it."""
    held = lease_of(folder)
    assert held.acquire() == ""
    held._ended.set()
    held._thread.join()
    held._remove_guard()
    return held


def test_a_lease_has_one_holder_until_it_is_released(folder):
    first = lease_of(folder)
    second = lease_of(folder)
    assert first.acquire() == ""
    assert second.acquire() == lease.holder(first._content)
    time.sleep(1.25 * lease.LEASE_SECONDS)  # renewed meanwhile
    assert second.acquire() == lease.holder(first._content) == folder.lock("lock")
    first.require()
    first.release()
    assert record_of(folder).read().content == b""
    assert second.acquire() == ""
    second.release()
    assert folder.lock("lock") == "" == folder.lock("lock")
    folder.unlock("lock")


@pytest.mark.parametrize("ended", [False, True])
def test_a_holder_that_slept_too_long_writes_nothing_more(ended, folder):
    """Not even after the one that took over has ended."""
    asleep = stopped(folder)
    second = lease_of(folder)
    began = time.monotonic()
    assert second.acquire() == ""
    assert lease.LEASE_SECONDS <= time.monotonic() - began < lease.LEASE_SECONDS + 3
    time.sleep(0.35 * lease.LEASE_SECONDS)
    if ended:
        second.release()
    remove = guards.add(folder.path, asleep.require)
    file = folder.path / "file"
    with pytest.raises(UserError, match=r"did not renew its lock .* taken it over"), writing(file):
        file.write_text("lost")
    assert not file.exists()
    with writing(folder.path.parent / "other"):
        pass
    remove()
    asleep.release()
    if not ended:
        second.require()
    second.release()


def test_a_holder_that_slept_less_goes_on(folder):
    held = stopped(folder)
    time.sleep(0.5 * lease.LEASE_SECONDS)
    held.require()
    assert lease_of(folder).acquire() == ""  # after the lease: nothing renews it


def test_of_many_contenders_one_gets_the_lease_of_a_dead_one(folder):
    stopped(folder)
    contenders = [lease_of(folder) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(lambda contender: contender.acquire(), contenders)]
    assert results.count("") == 1
    (winner,) = [contender for contender in contenders if contender._generation]
    winner.require()
    winner.release()


def test_a_late_write_of_an_old_generation_changes_nothing(folder):
    record = record_of(folder)
    old = record.read().generation
    for content in (b"a", b"b", b"", b"c"):
        assert record.write(content, record.read().generation)
    before = record.read()
    assert record.write(b"late", old) == b"" and record.read() == before
    assert before.content == b"c"


@pytest.mark.parametrize("storage", ["bucket"], indirect=True)
def test_an_answer_that_was_lost_does_not_lose_the_lock(folder, service):  # noqa: F811
    """A repeated write fails its own precondition: the service answers 412."""
    service.failure_rate = 0.5
    held = lease_of(folder)
    assert held.acquire() == ""
    for _ in range(8):
        held._renew()
        held.require()
    assert service.requests["POST 412"] > 0
    service.failure_rate = 0.0
    held.release()


@on_disk
def test_other_errors_of_locks_are_errors(folder, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="Input/output error"):
        folder.lock("lock")
    assert not (folder.path / "lock.lease").exists()


@on_disk
def test_a_machine_with_locks_waits_for_one_without(folder):
    held = lease_of(folder)
    assert held.acquire() == ""
    with lock.held(folder.path / "lock", held.release):
        assert os.listdir(folder.path / "lock.lease") != []


@on_disk
def test_a_lease_that_cannot_be_written_is_one_line(folder):
    (folder.path / "lock.lease").write_text("a file")
    with pytest.raises(UserError, match=r"lock\.lease: cannot be written: Not a directory"):
        lease_of(folder).acquire()


@on_disk
def test_a_record_that_is_being_written_is_read_when_it_has_its_content(folder, monkeypatch):
    record = record_of(folder)
    (folder.path / "lock.lease").mkdir()
    file = folder.path / "lock.lease" / "1"
    file.touch()
    assert record.read() == lease.Version(b"another process\n", b"1")  # killed in between
    monkeypatch.setattr(lease.time, "sleep", lambda _: file.write_bytes(b"process 1\n"))
    assert record.read() == lease.Version(b"process 1\n", b"1")
