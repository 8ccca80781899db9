"""Looking at locks: held, released, of a killed process, of other machines; none is taken."""

import subprocess
import sys

import pytest

from common_jax.io import lease, lock, lock_state
from common_jax.io.lock_state import LockState

HOLD = "import sys; from common_jax.io import lock; from pathlib import Path; \
lock.acquire(Path(sys.argv[1])); print('held', flush=True); input()"


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of the file `lock`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_is_held_until_its_process_ends(holder, tmp_path):
    state = LockState(tmp_path / "lock")
    held, name = state.look()
    assert held and name.startswith(f"process {holder.pid} on ")
    holder.kill()
    holder.wait()
    assert state.look() == (False, name)


def test_a_process_that_has_released_a_lock_and_goes_on_does_not_hold_it(tmp_path):
    file = tmp_path / "lock"
    assert LockState(file).look() == (False, "")
    assert lock.acquire(file) == ""
    assert LockState(file).look()[0]
    lock.release(file)
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
    file, record = tmp_path / "lock", lease.FolderRecord(tmp_path / "lock.lease")
    generation = record.write(b"process 3 on elsewhere\nkey\n", b"0")
    state = LockState(file)
    assert state.look() == (True, "process 3 on elsewhere")
    for _ in range(3):  # renewed
        now[0] += lease.LEASE_SECONDS - 1
        generation = record.write(b"process 3 on elsewhere\nkey\n", generation)
        assert state.look()[0]
    now[0] += lease.LEASE_SECONDS + 1  # killed
    assert state.look() == (False, "process 3 on elsewhere")
    record.write(b"", generation)
    assert state.look() == (False, "")
