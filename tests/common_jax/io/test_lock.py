"""Locks of files, and on disks that have none, leases: taken and lost."""

import errno
import fcntl
import logging
import os
import threading
import time

import pytest

from common_jax.io import lease, lock
from common_jax.io.storage import folder_of


@pytest.fixture(autouse=True)
def short_times(monkeypatch):
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(lease, "_RENEWAL_SECONDS", 0.06)
    monkeypatch.setattr(lease, "_POLL_SECONDS", 0.03)
    monkeypatch.setattr(lease, "_warned", set())


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, 524])
def no_locks(request, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


def lease_of(folder):
    return lease.Lease(folder, lease.FolderRecord(folder / "lock.lease"))


def test_a_disk_without_locks_has_a_lease_and_one_warning(tmp_path, no_locks, caplog):
    (tmp_path / "corpus").mkdir()
    folders = [folder_of(tmp_path), folder_of(tmp_path / "corpus")]
    for folder in folders:
        assert folder.lock("lock") == "" == folder.lock("lock")
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "this disk has no file locks" in record.getMessage()
    assert (tmp_path / "lock").read_text() == f"process {os.getpid()} on {os.uname().nodename}\n"
    assert lease_of(tmp_path).acquire().startswith(f"process {os.getpid()} on ")
    for folder in folders:
        folder.unlock("lock")
    assert lease_of(tmp_path).acquire() == ""


def test_a_context_waits_for_the_holder(tmp_path, no_locks):
    waited = []
    first = threading.Event()

    def hold():
        with lock.held(tmp_path / "lock"):
            first.set()
            time.sleep(0.3)

    thread = threading.Thread(target=hold)
    thread.start()
    first.wait()
    with lock.held(tmp_path / "lock", lambda: waited.append(thread.is_alive())):
        assert waited == [True]
    thread.join()
