"""Leases on disks without locks: contenders, late writes, errors."""

import errno
import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from common_jax.errors import UserError
from common_jax.io import guards, lease, lock
from common_jax.io.atomic import writing
from tests.common_jax.io.test_lock import lease_of, short_times  # noqa: F401


def stopped(folder):
    """A lease whose process has ended, or sleeps, without releasing it."""
    held = lease_of(folder)
    assert held.acquire() == ""
    held._ended.set()
    held._thread.join()
    held._remove_guard()
    return held


def test_a_machine_with_locks_heeds_the_lease_of_one_without(tmp_path):
    held = lease_of(tmp_path)
    assert held.acquire() == ""
    assert lock.acquire(tmp_path / "lock").startswith("process ")
    held.release()
    assert lock.acquire(tmp_path / "lock") == ""
    lock.release(tmp_path / "lock")


@pytest.mark.parametrize("ended", [False, True])
def test_a_holder_that_slept_too_long_writes_nothing_more(ended, tmp_path):
    """Not even after the one that took over has ended."""
    asleep = stopped(tmp_path)
    second = lease_of(tmp_path)
    began = time.monotonic()
    assert second.acquire() == ""
    assert 0.6 <= time.monotonic() - began < 3
    time.sleep(0.2)
    if ended:
        second.release()
    remove = guards.add(tmp_path, asleep.require)
    with pytest.raises(UserError, match="taken it over"), writing(tmp_path / "file"):
        (tmp_path / "file").write_text("lost")
    assert not (tmp_path / "file").exists()
    with writing(tmp_path.parent / "other"):
        pass
    remove()
    second.release()


def test_other_errors_of_locks_are_errors(tmp_path, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="Input/output error"):
        lock.acquire(tmp_path / "lock")
    assert not (tmp_path / "lock.lease").exists()


def test_a_holder_that_slept_less_goes_on(tmp_path):
    held = stopped(tmp_path)
    time.sleep(0.3)
    held.require()
    assert lease_of(tmp_path).acquire() == ""  # after the lease: nothing renews it


def test_of_many_contenders_one_gets_the_lease_of_a_dead_one(tmp_path):
    stopped(tmp_path)
    contenders = [lease_of(tmp_path) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(lambda contender: contender.acquire(), contenders)]
    assert results.count("") == 1
    (winner,) = [contender for contender in contenders if contender._generation]
    winner.require()
    assert len(os.listdir(tmp_path / "lock.lease")) == 1


def test_a_late_write_of_an_old_generation_changes_nothing(tmp_path):
    record = lease.FolderRecord(tmp_path / "lease")
    old = record.read().generation
    for content in (b"a", b"b", b"", b"c"):
        assert record.write(content, record.read().generation)
    before = record.read()
    assert record.write(b"late", old) == b"" and record.read() == before
    assert before.content == b"c" and os.listdir(tmp_path / "lease") == ["4"]


def test_a_lease_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "lock.lease").write_text("a file")
    with pytest.raises(UserError, match=r"lock\.lease: cannot be written: Not a directory"):
        lease_of(tmp_path).acquire()


def test_a_record_that_is_being_written_is_read_when_it_has_its_content(tmp_path, monkeypatch):
    record = lease.FolderRecord(tmp_path / "lock.lease")
    (tmp_path / "lock.lease").mkdir()
    file = tmp_path / "lock.lease" / "1"
    file.touch()
    assert record.read() == lease.Version(b"another process\n", b"1")  # killed in between
    monkeypatch.setattr(lease.time, "sleep", lambda _: file.write_bytes(b"process 1\n"))
    assert record.read() == lease.Version(b"process 1\n", b"1")
