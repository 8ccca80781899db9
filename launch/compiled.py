"""The cache of compiled programs, which later commands read."""

import contextlib
import logging
import os
import stat
import time
import warnings
from pathlib import Path

from common_jax.io.paths import as_path

COMPILED = "~/.cache/conv-attention-jax/compiled"
COMPILED_BYTES = 2**30  # size limit; the least recently used programs are removed
COMPILED_SECONDS = 0.1  # programs that compile faster are not kept; jax's default is 1


def keep_compiled() -> None:
    """Enables jax's persistent compilation cache, unless JAX_COMPILATION_CACHE_DIR sets another."""
    import jax

    if (chosen := jax.config.jax_compilation_cache_dir) is not None:
        as_path(chosen)  # registers buckets with epath, through which jax reads it
    else:
        with contextlib.suppress(RuntimeError):  # without a home directory
            folder = Path(COMPILED).expanduser()
            if _is_of_this_user(folder):
                jax.config.update("jax_compilation_cache_dir", str(folder))
                jax.config.update("jax_compilation_cache_max_size", COMPILED_BYTES)
                jax.config.update("jax_persistent_cache_min_compile_time_secs", COMPILED_SECONDS)
                _remove_unfinished(folder)
    # a full or read-only disk only disables the cache
    warnings.filterwarnings("ignore", "Error (read|writ)ing persistent compilation cache")


def _is_of_this_user(compiled: Path) -> bool:
    """Makes the folder; returns whether this user owns it and no other can write to it, since its
    programs are native code."""
    try:
        compiled.mkdir(0o700, parents=True, exist_ok=True)
        status = compiled.stat()
    except OSError:  # a full or read-only disk only disables the cache
        return True
    if status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return True
    logging.getLogger(__name__).warning("%s: not used, as others can write to it", compiled)
    return False


def _remove_unfinished(compiled: Path) -> None:
    """Removes programs without an -atime file, left by killed processes: with one, JAX (0.10.2)
    fails to evict programs and writes no new ones."""
    for path in compiled.glob("*-cache"):
        used = path.with_name(f"{path.name.removesuffix('-cache')}-atime")
        with contextlib.suppress(OSError):  # of another user, or removed by another process
            if not used.exists() and time.time() - path.stat().st_mtime > 60:
                path.unlink()
