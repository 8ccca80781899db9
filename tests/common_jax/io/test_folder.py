"""Folders on a disk and in a bucket (an emulator) behave alike, above their two classes; leases on
disks that have no locks of files."""

import errno
import fcntl
import logging
import os
import threading
import time
from pathlib import Path
from unittest import mock

import pytest

from common_jax.io import checksums, lease, lock
from common_jax.io.atomic import replace_text, write_json
from common_jax.io.storage import folder_of, local_copy
from tests.bucket.emulator import BUCKET, running


@pytest.fixture(scope="module")
def service():
    with running() as service:
        yield service


@pytest.fixture(params=["disk", "bucket"])
def folder(request, tmp_path, service, monkeypatch):
    """An empty folder, and another one beside it."""
    if request.param == "disk":
        (tmp_path / "folder").mkdir()
        return folder_of(tmp_path / "folder")
    service.reset()
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    return folder_of(f"gs://{BUCKET}/folder")


def contents(path):
    """The content of each file below a path, by name."""
    files = checksums.files_in(path)
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


def test_append(folder):
    for content in (b"a\n", b"b\n"):
        file = folder.append("log")
        os.write(file.fileno(), b"from a process\n")
        assert file.write(content) == 2
        file.flush()
        assert (folder.path / "log").read_bytes().endswith(content)
        file.write(b"end\n")
        file.close()
        file.close()
    text = b"from a process\na\nend\nfrom a process\nb\nend\n"
    assert (folder.path / "log").read_bytes() == text
    with open(file.name, "rb") as local:
        assert local.read() == text


def test_replace(folder):
    folder.replace("a", b"1")
    folder.replace("a", b"2")
    replace_text(folder.path / "b", "\u03b1")
    write_json(folder.path / "c", [1])
    assert contents(folder.path) == {"a": b"2", "b": b"\xce\xb1", "c": b"[\n  1\n]\n"}


@pytest.mark.parametrize("last", ["", "end"])
def test_publish_what_was_built_and_remove_it(folder, last):
    with folder.building("new") as built:
        (built / "sub").mkdir()
        for name in ("sub/a", "end"):
            (built / name).write_text(name)
        assert "new" not in folder.complete("end")
        folder.publish(built, "new", last)
    assert not built.exists() and folder.complete("end") == ["new"]
    assert contents(folder.path) == {"new/sub/a": b"sub/a", "new/end": b"end"}
    folder.publish(folder.path / "new", "moved")
    folder.remove("new")
    assert contents(folder.path) == {"moved/sub/a": b"sub/a", "moved/end": b"end"}
    for _ in range(2):
        folder.remove("moved")
    assert contents(folder.path) == {}


def test_what_was_not_published_is_deleted(folder):
    with pytest.raises(KeyError), folder.building("new") as built:
        (built / "a").write_text("a")
        raise KeyError
    assert not built.exists() and contents(folder.path) == {}


def test_a_folder_that_is_there_is_not_replaced_on_a_disk(tmp_path):
    folder = folder_of(tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a").write_text("a")
    with pytest.raises(OSError), folder.building("old") as built:
        folder.publish(built, "old")
    assert contents(tmp_path) == {"old/a": b"a"}


def write_step(folder, name, *, complete):
    """Writes a step as Orbax does."""
    renamed = isinstance(folder.path, Path)
    written = folder.path / (f"{name}.orbax-checkpoint-tmp-1" if renamed else name)
    written.mkdir()
    (written / "state").write_text("state")
    if complete and renamed:
        written.rename(folder.path / name)
    elif complete:
        (written / "commit_success.txt").write_text("")


def test_list_what_is_complete(folder):
    assert folder.complete() == folder.unfinished() == []
    for name in ("1", "20"):
        write_step(folder, name, complete=True)
    write_step(folder, "30", complete=False)
    assert sorted(folder.complete()) == ["1", "20"]
    (unfinished,) = folder.unfinished()
    assert unfinished.partition(".")[0] == "30"
    folder.remove(unfinished)
    assert folder.unfinished() == [] and sorted(folder.complete()) == ["1", "20"]


def test_lock(folder):
    assert folder.lock("lock") == "" == folder.lock("lock")  # it is its own
    name = f"process {os.getpid()} on {os.uname().nodename}\n"
    assert (folder.path / "lock").read_text().startswith(name)
    folder.unlock("lock")
    folder.unlock("lock")
    assert folder.lock("lock", keep=False) == "" == folder.lock("lock")
    folder.unlock("lock")


def test_a_mirror_has_what_a_library_wrote(folder):
    (folder.path / "events").mkdir(exist_ok=True)
    events = folder_of(folder.path / "events")
    for text in ("1", "12"):
        mirror = events.mirror()
        mirror.fetch()
        with (mirror.folder / "a").open("a") as file:
            file.write(text[-1])
        mirror.flush()
        assert contents(folder.path)["events/a"] == text.encode()
        (mirror.folder / "sub").mkdir(exist_ok=True)
        (mirror.folder / "sub" / "b").write_text("b")
        mirror.close()
    assert contents(folder.path) == {"events/a": b"12", "events/sub/b": b"b"}


def test_a_cache_is_fetched_to_this_machine(folder, tmp_path):
    with folder.building("corpus") as built:
        (built / "end").write_text("end")
        folder.publish(built, "corpus", last="end")
    folder.fetch("corpus", tmp_path / "copy")
    assert contents(tmp_path / "copy") == {"end": b"end"}
    assert isinstance(folder.local.path, Path)
    assert contents(local_copy(folder.path)) == {"corpus/end": b"end"}


def test_every_process_fills_it(folder):
    calls = []
    folder.fill(lambda: calls.append("first"), lambda: calls.append("every"))
    assert calls[-1] == "every" and calls.count("every") == 1


def test_walk(folder):
    for name in ("a", "run/config", "run/metrics", "sweep/b/config"):
        (folder.path / name).parent.mkdir(parents=True, exist_ok=True)
        (folder.path / name).write_text(name)
    assert [*folder.walk("config")] == [
        (folder.path, {"a"}),
        (folder.path / "run", {"config", "metrics"}),
        (folder.path / "sweep" / "b", {"config"}),
    ]
    assert [*folder_of(folder.path / "none").walk("config")] == []


def test_a_disk_is_walked_without_what_is_hidden_leads_back_or_is_inside_a_leaf(tmp_path):
    for name in (".git/a", "run/config", "run/sub/a", "b/a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    for name, target in {"back": tmp_path, "again": tmp_path / "b"}.items():
        (tmp_path / "b" / name).symlink_to(target)
    walked = [path for path, _ in folder_of(tmp_path).walk("config")]
    assert walked == [tmp_path / "b", tmp_path / "run"]


def test_the_time_of_a_change(folder):
    assert not folder.modified("a")
    folder.replace("a", b"1")
    changed = folder.modified("a")
    assert changed is None or abs(changed - time.time()) < 60


def test_obstacles(tmp_path):
    (tmp_path / "folder").mkdir()
    assert folder_of(tmp_path).obstacle("file") == ""
    assert "is a folder" in folder_of(tmp_path).obstacle("folder")
    assert "no folder" in folder_of(tmp_path / "missing").obstacle("file")
    assert folder_of(f"gs://{BUCKET}/missing").obstacle("file") == ""


def test_damage_is_found(folder):
    for name in ("a", "b"):
        folder.replace(name, b"1")
    checksums.seal(folder.path)
    assert checksums.find_damage(folder.path) is None
    folder.replace("b", b"2")
    assert checksums.find_damage(folder.path).startswith("b: ")
    (folder.path / "b").unlink()
    assert checksums.find_damage(folder.path) == "b: missing"
    assert checksums.find_damage(folder.path / "none") == "missing"


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, 524])
def no_locks(request, monkeypatch):
    """No locks of files, and leases of short times."""
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.6)
    monkeypatch.setattr(lease, "_RENEWAL_SECONDS", 0.06)
    monkeypatch.setattr(lease, "_POLL_SECONDS", 0.03)
    monkeypatch.setattr(lease, "_warned", set())
    error = OSError(request.param, os.strerror(request.param))
    monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=error))


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
