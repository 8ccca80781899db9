"""The cache of compiled programs."""

import jax
import pytest

from launch import compiled


@pytest.mark.parametrize("mode,used", [(None, True), (0o775, True), (0o777, False)])
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
