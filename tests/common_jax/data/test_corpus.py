"""The prepared corpus: reading, writing, building once; cached arrays."""

import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common_jax.data.cached_arrays import cached_arrays
from common_jax.data.corpus import Corpus, Writer, file_identity, prepare
from common_jax.errors import UserError
from tests.refusals import refusal

ROWS = st.lists(st.tuples(*[st.lists(st.integers(-(2**31), 2**31 - 1), max_size=9)] * 2))


@settings(max_examples=60)
@given(rows=ROWS, chunk=st.integers(1, 5), data=st.data())
def test_written_is_read(tmp_path_factory, rows, chunk, data):
    path = tmp_path_factory.mktemp("corpus")
    with Writer(path, ["a", "b"]) as writer:
        for at in range(0, len(rows), chunk):
            a, b = zip(*rows[at : at + chunk], strict=True)
            writer.extend({"a": a, "b": b})
        writer.meta["kept"] = {"ü": 1}
    corpus = Corpus.open(path)
    assert len(corpus) == len(rows) and corpus.meta == {"kept": {"ü": 1}}
    assert corpus.lengths("b", "a").tolist() == [[len(b), len(a)] for a, b in rows]
    for column, name in enumerate("ab"):
        texts = [row[column] for row in rows]
        assert corpus.tokens(name) == sum(map(len, texts))
        assert [corpus.row(i, name).tolist() for i in range(len(rows))] == texts
        picked = data.draw(st.lists(st.integers(-1, len(rows) - 1)))
        width = max([len(texts[i]) for i in picked if i >= 0], default=0) + 1
        gathered = corpus.gather(np.array(picked, int), name, width)
        assert gathered.dtype == np.int32 and gathered.shape == (len(picked), width)
        for at, i in enumerate(picked):
            tokens = texts[i] if i >= 0 else []
            assert gathered[at].tolist() == tokens + [0] * (width - len(tokens))


def test_writer_refuses_uneven_columns(tmp_path):
    with Writer(tmp_path, ["a", "b"]) as writer:
        with pytest.raises(ValueError, match="columns"):
            writer.append({"a": [1]})
        with pytest.raises(ValueError, match="different numbers"):
            writer.extend({"a": [[1]], "b": []})


def test_a_damaged_folder_is_refused(tmp_path):
    def refused(path):
        line = refusal(Corpus.open, path)
        assert "delete the folder to prepare it again" in line and str(path) in line

    refused(tmp_path / "none")
    with pytest.raises(KeyboardInterrupt), Writer(tmp_path / "cut", ["a"]) as writer:
        writer.append({"a": [1]})
        raise KeyboardInterrupt
    refused(tmp_path / "cut")
    folder = tmp_path / "whole"
    with Writer(folder, ["a"]) as writer:
        writer.extend({"a": [[1, 2], [3]]})
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    damaged = [(name, files[name][:-4]) for name in ("a.tokens", "a.offsets", "meta.json")]
    assert np.frombuffer(files["a.offsets"], "<i8").tolist() == [0, 2, 3]
    for starts in ([1, 2, 3], [0, 2, 4], [0, 4, 3], [0, -1, 3], [0, 2**62, 3]):
        damaged.append(("a.offsets", np.array(starts, "<i8").tobytes()))
    meta = json.loads(files["meta.json"])
    for wrong in ({"format": 0}, {"rows": -1}, {"rows": "1"}, {"columns": ["a"]}, {"columns": 1}):
        damaged.append(("meta.json", json.dumps({**meta, **wrong}).encode()))
    for name, content in damaged:
        (folder / name).write_bytes(content)
        refused(folder)
        (folder / name).unlink()
        refused(folder)
        (folder / name).write_bytes(files[name])
    assert len(Corpus.open(folder)) == 2


def touch(folder):
    (folder / "done").touch()


def test_prepare_builds_once_for_each_fingerprint(tmp_path, monkeypatch):
    """Here in a folder of the home folder that is not there yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    built = []

    def build(folder):
        built.append(folder)
        touch(folder)

    one = prepare("~/new/cache", {"a": 1, "b": [2]}, build)
    assert one == prepare(tmp_path / "new" / "cache", {"b": [2], "a": 1}, build)
    assert one.parent == tmp_path / "new" / "cache" and (one / "done").exists()
    assert json.loads((one / "fingerprint.json").read_text()) == {"a": 1, "b": [2]}
    assert len(built) == 1
    other = prepare(tmp_path / "new" / "cache", {"a": 1, "b": [3]}, build)
    assert other != one and len(built) == 2


def test_a_folder_of_another_format_is_named(tmp_path, caplog):
    caplog.set_level("INFO")
    old = prepare(tmp_path, {"translation": 1, "max_length": 9}, touch)
    prepare(tmp_path, {"translation": 2, "max_length": 8}, touch)
    assert not caplog.messages
    new = prepare(tmp_path, {"translation": 2, "max_length": 9}, touch)
    assert new != old and len(caplog.messages) == 1
    assert f"{old} has format 1, and this version reads format 2" in caplog.text


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UserError("text:3: bad"), "text:3: bad"),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            r"data\.cache_dir=.*No space left.*room",
        ),
    ],
)
def test_a_failed_build_leaves_nothing(tmp_path, error, message):
    def fail(folder):
        touch(folder)
        raise error

    with pytest.raises(UserError, match=message):
        prepare(tmp_path, {}, fail)
    assert [p.suffix for p in tmp_path.iterdir()] in ([], [".lock"])
    assert (prepare(tmp_path, {}, touch) / "done").exists()


BUILD = """
import sys, time
from pathlib import Path
from common_jax.data.corpus import prepare
def build(folder):
    with open({log!r}, "a") as file:
        file.write("build\\n")
    (folder / "part").touch()
    print("building", flush=True)
    time.sleep({seconds})
    (folder / "done").touch()
print(prepare({cache!r}, {{"a": 1}}, build), flush=True)
"""


def start(tmp_path, seconds):
    """A process that builds a corpus in the given time, or waits for another that does."""
    code = BUILD.format(log=str(tmp_path / "log"), cache=str(tmp_path / "cache"), seconds=seconds)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def builds(tmp_path) -> int:
    return len((tmp_path / "log").read_text().splitlines())


def test_several_processes_build_once(tmp_path):
    processes = [start(tmp_path, 1.0) for _ in range(3)]
    paths = {process.communicate(timeout=60)[0].splitlines()[-1] for process in processes}
    assert len(paths) == 1 and builds(tmp_path) == 1


def test_file_identity(tmp_path):
    for name, content in (("a", b"one"), ("b", b"one"), ("c", b"two")):
        (tmp_path / name).write_bytes(content)
    a, b, c = (file_identity(tmp_path / name) for name in "abc")
    assert a == b != c and a["bytes"] == 3
    with pytest.raises(UserError, match="none: No such file"):
        file_identity(tmp_path / "none")


ARRAYS = {"one": np.arange(1000), "two": np.eye(3)}


def fetch(folder, name="plan"):
    """Compares the cached arrays; returns whether they were computed now."""
    calls = []
    arrays = cached_arrays(folder, name, lambda: calls.append(1) or ARRAYS)
    assert arrays.keys() == ARRAYS.keys()
    assert all(np.array_equal(arrays[k], ARRAYS[k]) for k in ARRAYS)
    return bool(calls)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"no archive",
        lambda content: content[:300],
        lambda content: content[:3000] + bytes([content[3000] ^ 4]) + content[3001:],
    ],
)
def test_arrays_are_computed_once_and_again_if_their_file_is_damaged(tmp_path, damage):
    folder = tmp_path / "corpus" / "plans"
    folder.parent.mkdir()
    assert [fetch(folder) for _ in range(3)] == [True, False, False]
    (file,) = folder.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert [fetch(folder) for _ in range(2)] == [True, False]
    assert list(folder.iterdir()) == [file] and fetch(folder, "other")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux, to be another user")
def test_read_only_folder(tmp_path):
    """A read-only folder is an error, unless the corpus is already in it."""
    ready = prepare(tmp_path, {"ready": 1}, touch)
    tmp_path.chmod(0o555)
    code = (
        "import os, sys\n"
        "from common_jax.data.corpus import prepare\n"  # before the user changes
        "import filelock\n"
        "if os.geteuid() == 0:\n"
        "    os.seteuid(65534)\n"
        f"for name in ('ready', 'new'):\n"
        f"    try: print(prepare({str(tmp_path)!r}, {{name: 1}}, lambda folder: None))\n"
        "    except Exception as error: print(type(error).__name__, error)\n"
    )
    for parent in tmp_path.parents:  # pytest's own folders are closed to others
        if parent.stat().st_uid == os.geteuid() and parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    tmp_path.chmod(0o755)
    first, second = done.stdout.splitlines()
    assert first == str(ready), done.stderr
    assert second.startswith(f"UserError data.cache_dir={tmp_path}: ")
    assert "Permission denied" in second


@pytest.mark.slow
def test_a_killed_build_starts_again(tmp_path):
    """The process that waited for it builds the corpus."""
    first = start(tmp_path, 60)
    assert first.stdout.readline() == "building\n"
    second = start(tmp_path, 0)
    time.sleep(1)
    first.send_signal(signal.SIGKILL)
    first.wait()
    path = second.communicate(timeout=60)[0].splitlines()[-1]
    assert builds(tmp_path) == 2
    assert sorted(os.listdir(path)) == ["checksums.json", "done", "fingerprint.json", "part"]
    assert not list((tmp_path / "cache").glob("*.tmp"))


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"data\.cache_dir=.*file: .*Not a directory|File exists"):
        prepare(tmp_path / "file", {}, touch)
    assert fetch(tmp_path / "file" / "plans") and fetch(tmp_path / "file" / "plans")


def test_a_write_of_arrays_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", fail)
    assert fetch(tmp_path) and not list(tmp_path.iterdir())
