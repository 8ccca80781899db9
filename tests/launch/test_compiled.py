"""The cache of compiled programs."""

import os

import jax
import pytest

from launch import compiled


@pytest.mark.parametrize("mode,used", [(None, True), (0o775, False), (0o777, False)])
def test_compiled_programs_are_read_only_where_others_cannot_write(
    mode, used, tmp_path, monkeypatch, caplog
):
    folder, before = tmp_path / "a" / "compiled", jax.config.jax_compilation_cache_dir
    if mode:
        folder.mkdir(parents=True)
        folder.chmod(mode)
    monkeypatch.setattr(compiled, "COMPILED", str(folder))
    jax.config.update("jax_compilation_cache_dir", None)
    try:
        compiled.keep_compiled()
        assert jax.config.jax_compilation_cache_dir == (str(folder) if used else None)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert folder.stat().st_mode & 0o777 == (mode or 0o700)
    assert ("others can write to it" in caplog.text) == (not used)


def test_a_program_without_its_time_is_removed_when_old(tmp_path):
    """Also beside one that another process removes meanwhile: here, a link to nothing."""
    (tmp_path / "0-cache").symlink_to(tmp_path / "removed")
    for name in ("1-cache", "2-cache", "2-atime", "3-cache"):
        (tmp_path / name).touch()
    for name in ("1-cache", "2-cache"):
        os.utime(tmp_path / name, (1, 1))
    compiled._remove_unfinished(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "0-cache",
        "2-cache",
        "2-atime",
        "3-cache",
    }
