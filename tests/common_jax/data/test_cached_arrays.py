"""Cached arrays: read if intact, otherwise computed; failures to write are ignored."""

import numpy as np
import pytest

from common_jax.data.cached_arrays import cached_arrays

ARRAYS = {"one": np.arange(1000), "two": np.eye(3)}


def fetch(folder, name="plan"):
    """The cached arrays, and whether they were computed now."""
    calls = []
    arrays = cached_arrays(folder, name, lambda: calls.append(1) or ARRAYS)
    assert arrays.keys() == ARRAYS.keys()
    assert all(np.array_equal(arrays[k], ARRAYS[k]) for k in ARRAYS)
    return bool(calls)


def test_computed_once(tmp_path):
    folder = tmp_path / "corpus" / "plans"
    folder.parent.mkdir()
    assert [fetch(folder) for _ in range(3)] == [True, False, False]
    assert fetch(folder, "other") and len(list(folder.iterdir())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"no archive",
        lambda content: content[:300],
        lambda content: content[:3000] + bytes([content[3000] ^ 4]) + content[3001:],
    ],
)
def test_a_damaged_file_is_replaced(tmp_path, damage):
    fetch(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert [fetch(tmp_path) for _ in range(2)] == [True, False]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    assert fetch(tmp_path / "file" / "plans") and fetch(tmp_path / "file" / "plans")


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", fail)
    assert fetch(tmp_path) and not list(tmp_path.iterdir())
