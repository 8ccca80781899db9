"""Executables on disk, those of the same program, shapes and settings alone; programs on disk."""

import os
from unittest import mock

import jax
import numpy as np
import pytest

from common_jax.deploy import executables
from common_jax.deploy.bounded_program import BoundedProgram, InputTooLargeError
from common_jax.deploy.executables import Executables
from launch import compiled

PARAMS = {"w": np.arange(9, dtype=np.float32).reshape(3, 3)}
BATCH = {"x": np.array([[1.0, 2.0, 4.0]], np.float32)}
EXPECTED = BATCH["x"] @ PARAMS["w"]

pytestmark = pytest.mark.usefixtures("compilation_cache")


def program(lower, gigabytes=1.0, content=b"program", params=PARAMS):
    params = jax.device_put(params)
    bounded = BoundedProgram(lower, gigabytes, Executables.of(content, params))
    return lambda batch: np.asarray(bounded(params, batch)["y"])


def lower(params, arrays):
    return jax.jit(lambda p, a: {"y": a["x"] @ p["w"]}).lower(params, arrays)


class CompiledError(Exception):
    pass


found_only = mock.Mock(side_effect=CompiledError)


def test_an_executable_is_found_by_its_program_shapes_and_settings(monkeypatch):
    np.testing.assert_array_equal(program(lower)(BATCH), EXPECTED)
    np.testing.assert_array_equal(program(found_only)(BATCH), EXPECTED)
    doubled = {"w": 2 * PARAMS["w"]}
    np.testing.assert_array_equal(program(found_only, params=doubled)(BATCH), 2 * EXPECTED)
    with pytest.raises(InputTooLargeError):  # the memory stays limited
        program(found_only, gigabytes=1e-12)(BATCH)
    for other in ({"content": b"other"}, {"params": {"w": PARAMS["w"].astype(np.float16)}}):
        with pytest.raises(CompiledError):
            program(found_only, **other)(BATCH)
    with pytest.raises(CompiledError):
        program(found_only)({"x": np.zeros((2, 3), np.float32)})
    with jax.default_matmul_precision("float32"), pytest.raises(CompiledError):
        program(found_only)(BATCH)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    with pytest.raises(CompiledError):
        program(found_only)(BATCH)


def test_a_damaged_file_is_compiled_again(compilation_cache):
    program(lower)(BATCH)
    (file,) = (compilation_cache / executables.FOLDER).glob("*/*")
    for damage in (b"", b"no pickle", file.read_bytes()[:-20]):
        file.write_bytes(damage)
        np.testing.assert_array_equal(program(lower)(BATCH), EXPECTED)
        np.testing.assert_array_equal(program(found_only)(BATCH), EXPECTED)


def test_one_of_jaxs_own_cache_is_not_kept(compilation_cache):
    """XLA's CPU executables that were read cannot be written again."""
    compiled = lower(jax.device_put(PARAMS), BATCH).compile()

    class Lowered:
        def compile(self):
            jax.monitoring.record_event("/jax/compilation_cache/cache_hits")
            return compiled

    np.testing.assert_array_equal(program(lambda *_: Lowered())(BATCH), EXPECTED)
    assert not (compilation_cache / executables.FOLDER).exists()


def test_the_least_recently_used_are_removed(compilation_cache, monkeypatch):
    for rows in (1, 2, 3):
        program(lower)({"x": np.ones((rows, 3), np.float32)})
    files = sorted(
        (compilation_cache / executables.FOLDER).glob("*/*"), key=lambda f: f.stat().st_mtime_ns
    )
    sizes = [file.stat().st_size for file in files]
    monkeypatch.setattr(executables, "BYTES", sum(sizes) + min(sizes) // 2)
    program(found_only)({"x": np.ones((1, 3), np.float32)})  # uses the oldest
    program(lower)({"x": np.ones((4, 3), np.float32)})
    assert not files[1].exists() and files[0].exists() and files[2].exists()


@pytest.mark.parametrize("folder", ["", "gs://bucket/compiled"])
def test_there_are_none_without_a_folder_on_a_disk(folder):
    jax.config.update("jax_compilation_cache_dir", folder or None)
    assert Executables.of(b"program", jax.device_put(PARAMS)) is None


@pytest.mark.parametrize("mode,used", [(None, True), (0o775, False), (0o777, False)])
def test_compiled_programs_are_read_only_where_others_cannot_write(
    mode, used, tmp_path, monkeypatch, caplog
):
    folder = tmp_path / "a" / "compiled"
    if mode:
        folder.mkdir(parents=True)
        folder.chmod(mode)
    monkeypatch.setattr(compiled, "COMPILED", str(folder))
    jax.config.update("jax_compilation_cache_dir", None)
    compiled.keep_compiled()
    assert jax.config.jax_compilation_cache_dir == (str(folder) if used else None)
    assert folder.stat().st_mode & 0o777 == (mode or 0o700)
    assert ("others can write to it" in caplog.text) == (not used)


def test_a_program_without_its_time_is_removed_when_old(tmp_path):
    """Also beside one that another process removes meanwhile: here, a link to nothing."""
    (tmp_path / "0-cache").symlink_to(tmp_path / "removed")
    kept = ("2-cache", "2-atime", "3-cache")
    for name in ("1-cache", *kept):
        (tmp_path / name).touch()
    for name in ("1-cache", "2-cache"):
        os.utime(tmp_path / name, (1, 1))
    compiled._remove_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"0-cache", *kept}
