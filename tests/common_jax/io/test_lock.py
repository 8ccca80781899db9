"""Locks of files, and on disks that have none, leases: taken, lost and looked at."""

import errno
import fcntl
import logging
import os
import subprocess
import sys
import threading
import time

import pytest

from common_jax.io import lock, lock_state
from common_jax.io.lock_state import LockState
from common_jax.io.storage import folder_of


@pytest.fixture(autouse=True)
def short_times(monkeypatch):
    monkeypatch.setattr(lock, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(lock, "_RENEWAL_SECONDS", 0.06)
    monkeypatch.setattr(lock, "_POLL_SECONDS", 0.03)
    monkeypatch.setattr(lock, "_warned", set())


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, 524])
def no_locks(request, monkeypatch):
    def flock(descriptor, operation):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


def lease_of(folder):
    return lock.Lease(folder, lock.FolderRecord(folder / "lock.lease"))


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


HOLD = "import sys; from common_jax.io.storage import folder_of; \
folder_of(sys.argv[1]).lock('lock'); print('held', flush=True); input()"


def test_a_lock_is_held_until_its_process_ends(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        state = LockState(tmp_path / "lock")
        held, name = state.look()
        assert held and name.startswith(f"process {holder.pid} on ")
        holder.kill()
        holder.wait()
        assert state.look() == (False, name)


def test_a_process_that_has_released_a_lock_and_goes_on_does_not_hold_it(tmp_path):
    file = tmp_path / "lock"
    assert LockState(file).look() == (False, "")
    assert folder_of(tmp_path).lock("lock") == ""
    assert LockState(file).look()[0]
    folder_of(tmp_path).unlock("lock")
    if sys.platform == "linux":
        assert LockState(file).look()[0] is False


def test_looking_takes_no_lock(tmp_path, monkeypatch):
    file = tmp_path / "lock"
    file.write_text("process 1 on elsewhere\n")
    monkeypatch.setattr("fcntl.flock", lambda *_: pytest.fail("a lock was taken"))
    before = file.stat().st_mtime_ns
    assert LockState(file).look() == (None, "process 1 on elsewhere")
    assert file.stat().st_mtime_ns == before and [*tmp_path.iterdir()] == [file]


def test_a_lease_is_held_while_its_record_changes(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(lock_state.time, "monotonic", lambda: now[0])
    file, record = tmp_path / "lock", lock.FolderRecord(tmp_path / "lock.lease")
    generation = record.write(b"process 3 on elsewhere\nkey\n", b"0")
    state = LockState(file)
    assert state.look() == (True, "process 3 on elsewhere")
    for _ in range(3):  # renewed
        now[0] += lock_state.LEASE_SECONDS - 1
        generation = record.write(b"process 3 on elsewhere\nkey\n", generation)
        assert state.look()[0]
    now[0] += lock_state.LEASE_SECONDS + 1  # killed
    assert state.look() == (False, "process 3 on elsewhere")
    record.write(b"", generation)
    assert state.look() == (False, "")
