"""One-line messages for errors that the arguments, the machine or its settings cause."""

import errno
import os
import re
import sys
import traceback
from pathlib import Path

from common_jax.errors import causes, missing_extra

_USER_ERRNOS = (errno.ENAMETOOLONG, errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_LESS_MEMORY = (
    "smaller batches, train.accumulate, more devices with mesh.fsdp or a smaller model need less"
)
_EXTRAS = {"cuda": "cuda", "gpu": "cuda", "tpu": "tpu"}  # by platforms


def failure(error: BaseException) -> str | None:
    """The message of a full disk, too little memory, or a missing platform; None for a bug."""
    if isinstance(error, OSError) and error.errno in _USER_ERRNOS:
        return f"{error.filename or 'standard output'}: {error.strerror}"
    if memory := out_of_memory(error):
        return f"{memory} ({_LESS_MEMORY})"
    return _missing_platform(error)


def location(error: BaseException) -> str:
    """The type and location of an error, without its message, which may quote a request."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = " < ".join(f"{f.filename}:{f.lineno} {f.name}" for f in reversed(frames[-5:]))
    return f"{type(error).__name__} in {lines}"


def out_of_memory(error: BaseException) -> str | None:
    """The message of an out-of-memory error of host or device among an error's causes, or None."""
    jax = sys.modules.get("jax")
    for cause in causes(error):
        if isinstance(cause, MemoryError):
            return str(cause) or "Out of memory"
        if jax and isinstance(cause, jax.errors.JaxRuntimeError):
            match = re.search("(Ran out|Out) of memory.*|RESOURCE_EXHAUSTED.*", str(cause))
            if match:
                return match[0].rstrip(".")
    return None


def _missing_platform(error: BaseException) -> str | None:
    """The message of an error that jax raises when it looks for the devices of a platform."""
    jax = sys.modules.get("jax")
    for cause in causes(error):
        frames = traceback.extract_tb(cause.__traceback__)
        if jax is None or not frames or Path(frames[-1].filename).name != "xla_bridge.py":
            continue
        platforms = jax.config.jax_platforms
        variable = "JAX_PLATFORMS" if platforms else "JAX_PLATFORM_NAME"
        name = platforms or os.environ.get(variable, "")
        reason = re.sub(r"^Unable to initialize backend '\w*': ", "", str(cause))
        reason = re.split(r"[.:]? \((?:set|you may)", reason)[0] or "no such device"
        extra = f"; {missing_extra('it', _EXTRAS[name])}" if name in _EXTRAS else ""
        return f"{variable}={name}: {reason}{extra}; {variable}=cpu computes on the CPU"
    return None
