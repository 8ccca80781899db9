"""Versions of Python, of the packages that results depend on, and of this code."""

import contextlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "conv-attention-jax")


def versions() -> dict[str, str]:
    """Versions by package name; those that are not installed are absent."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed


def commit() -> str:
    """The commit of this clone, ending in "-dirty" if tracked files differ from it; "" if this code
    is not in a clone of its own."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return ""
    options = ("--always", "--dirty", "--abbrev=40", "--exclude=*")
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        describe = ["git", "-C", str(root), "describe", *options]
        return subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    return ""
