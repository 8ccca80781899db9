"""Atomic replacement of files; write errors as one line."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from common_jax.errors import Interrupted, UserError, causes
from common_jax.io import guards
from common_jax.io.paths import AnyPath
from common_jax.io.storage import bucket_state, folder_of


@contextlib.contextmanager
def writing(path: AnyPath, advice: Callable[[], str] = str) -> Iterator[None]:
    """Converts an OSError raised while writing `path`, at any depth, into a one-line UserError.

    Args:
      advice: called upon an error; returns the end of the message.

    Raises:
      UserError: also if the lock of a folder above has been lost (`common_jax.io.guards`).
    """
    try:
        guards.require(path)
        yield
    except (UserError, Interrupted):
        raise
    except Exception as error:
        reason = _system_reason(error)
        if reason is None:
            raise
        raise UserError(f"{path}: cannot be written: {reason}{advice()}") from error


def _system_reason(error: BaseException) -> str | None:
    """The operating system's message, if an OSError is among the causes of an exception."""
    chain = list(causes(error))
    buckets = bucket_state()
    jax = sys.modules.get("jax")
    if jax and any(isinstance(cause, jax.errors.JaxRuntimeError) for cause in chain):
        return None  # Orbax raises an OSError when another process has died
    for cause in chain:
        if isinstance(cause, OSError):
            return cause.strerror or str(cause)
        if buckets and (reason := buckets.service_error(cause)):
            return reason
        if number := re.search(r"os_error_code='(\d+)'", str(cause)):  # TensorStore's
            return os.strerror(int(number[1]))
    return None


def replace_text(path: AnyPath, text: str) -> None:
    """`replace_bytes` of a text in UTF-8."""
    replace_bytes(path, text.encode())


def replace_bytes(path: AnyPath, content: bytes) -> None:
    """Replaces a file atomically (`common_jax.io.folder.Folder.replace`)."""
    folder_of(path.parent).replace(path.name, content)


def write_json(path: AnyPath, value: Any) -> None:
    """Replaces a file atomically by the value as indented JSON."""
    replace_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
