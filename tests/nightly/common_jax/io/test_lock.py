"""Leases on disks without locks: contenders, late writes, errors."""

import errno
import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from common_jax.errors import UserError
from common_jax.io import lease, lock
from tests.common_jax.io.test_lock import lease_of, short_times, stopped  # noqa: F401


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
