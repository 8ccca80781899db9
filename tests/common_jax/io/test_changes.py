"""Files that others write: only what is new is read, and a replaced file is noticed."""

import io
import os
from pathlib import Path

import pytest

from common_jax.io.changes import ChangingFile, GrowingLines


@pytest.fixture
def opened(monkeypatch):
    """The reads of files: (start, bytes)."""
    calls = []
    real = Path.open

    class Counted(io.FileIO):
        def read(self):
            start = self.tell()
            content = super().read()
            calls.append((start, len(content)))
            return content

    def open_(self, mode="r", *rest, **keywords):
        return Counted(self) if mode == "rb" else real(self, mode, *rest, **keywords)

    monkeypatch.setattr(Path, "open", open_)
    return calls


def test_a_file_is_read_again_only_once_it_has_changed(tmp_path, opened):
    path = tmp_path / "file"
    file = ChangingFile(path)
    assert file.read() == (True, None) and file.read() == (False, None)
    path.write_bytes(b"one")
    assert file.read() == (True, b"one") and file.modified == path.stat().st_mtime
    assert file.read() == (False, None) and opened == [(0, 3)]
    path.unlink()
    assert file.read() == (True, None) and file.modified == 0


def test_only_new_lines_are_read(tmp_path, opened):
    path = tmp_path / "log"
    lines = GrowingLines(path)
    assert lines.read() == (False, [])
    with path.open("ab", buffering=0) as log:
        log.write(b"one\ntwo\nthr")
        assert lines.read() == (False, [b"one\n", b"two\n"])
        log.write(b"ee\n")
        assert lines.read() == (False, [b"three\n"])
        log.write(b"four\n")
        assert lines.read() == (False, [b"four\n"])
    assert lines.read() == (False, [])
    # from the last complete line on, which tells whether this is the same file
    assert opened == [(0, 11), (4, 10), (8, 11)]


@pytest.mark.parametrize("content", [b"one\n", b"one\n2\nthree\nfour\nfive\n", b""])
def test_a_replaced_file_is_read_from_its_start(content, tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthree\n")
    lines = GrowingLines(path)
    assert len(lines.read()[1]) == 3
    (tmp_path / "new").write_bytes(content)
    os.replace(tmp_path / "new", path)
    replaced, new = lines.read()
    assert replaced and b"".join(new) == content
    with path.open("ab") as log:
        log.write(b"more\n")
    assert lines.read() == (False, [b"more\n"])


def test_a_deleted_file_counts_as_replaced(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    lines = GrowingLines(path)
    lines.read()
    path.unlink()
    assert lines.read() == (True, [])
    path.write_bytes(b"two\n")
    assert lines.read() == (False, [b"two\n"])
