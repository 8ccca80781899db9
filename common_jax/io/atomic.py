"""Files replaced in one move, and write errors as one line."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from common_jax.errors import UserError, causes


@contextlib.contextmanager
def writing(path: Path, what_is_safe: Callable[[], str] = str) -> Iterator[None]:
    """What the system has against writing there, however deep in a library, as one line.

    Args:
      what_is_safe: called when it failed; gives the end of that line.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = _system_reason(error)
        if reason is None:
            raise
        said = f"{path}: cannot be written: {reason}{what_is_safe()}"
        raise UserError(said) from error


def _system_reason(error: BaseException) -> str | None:
    """What the operating system said, if it is at the bottom of an exception."""
    chain = list(causes(error))
    jax = sys.modules.get("jax")
    if jax and any(isinstance(cause, jax.errors.JaxRuntimeError) for cause in chain):
        return None  # of another process that has died Orbax makes an OSError
    for cause in chain:
        if isinstance(cause, OSError):
            return cause.strerror or str(cause)
        if number := re.search(r"os_error_code='(\d+)'", str(cause)):  # TensorStore's
            return os.strerror(int(number[1]))
    return None


def replace_text(path: Path, text: str) -> None:
    """Replaces a file in one move: no reader sees half of it, and a full disk changes nothing."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="")
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise


def write_json(path: Path, value: Any) -> None:
    """Replaces a file in one move by the value, for people to read."""
    replace_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
