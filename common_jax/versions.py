"""What made a result: Python, and the packages that its numbers depend on."""

import contextlib
import platform
from importlib import metadata

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy", "conv-attention-jax")


def versions() -> dict[str, str]:
    """Of Python and of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
