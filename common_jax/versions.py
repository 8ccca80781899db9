"""Versions of Python and of the packages that results depend on."""

import contextlib
import platform
from importlib import metadata

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "conv-attention-jax")


def versions() -> dict[str, str]:
    """Versions by package name; those that are not installed are absent."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed
