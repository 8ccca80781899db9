"""What an export of a stranger must be: parameters for models of packages that are trusted.

Such an export is data: its programs never run, this suite's code computes with its parameters, and
no class that it names is imported before its package is known.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.renames import current_class

PACKAGES = ("attconv_jax", "common_jax", "csan_jax", "qanet_jax")
_CLASS_FIELDS = ("task", "name")  # of a config, "package.module:Class"


def require_trusted(file: Path, config: Any, packages: Sequence[str] = ()) -> None:
    """Raises UserError if a config names a class of another package than `PACKAGES`.

    Args:
      file: of the config, for the message.
      config: its values, as JSON has them.
      packages: further packages that are trusted.
    """
    for key, name in _class_names(config):
        package = current_class(name).partition(":")[0].partition(".")[0]
        if package not in (*PACKAGES, *packages):
            raise UserError(
                f"{file}: {key}={name[:80]!r}: of the package {package[:40]!r}, which is not this "
                f"suite's; --trust_package {package[:40]} allows it"
            )


def _class_names(values: Any, under: str = "") -> Iterator[tuple[str, str]]:
    """The keys and values of a config's fields that name classes."""
    if not isinstance(values, dict):
        return
    for key, value in values.items():
        full_key = f"{under}{key}"
        if isinstance(value, dict):
            yield from _class_names(value, f"{full_key}.")
        elif key in _CLASS_FIELDS and isinstance(value, str) and ":" in value:
            yield full_key, value
