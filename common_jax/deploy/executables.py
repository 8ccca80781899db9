"""Executables of programs in the folder of jax's compilation cache.

jax finds an executable by the lowered program. To lower an exported program for other lengths takes
as long as to translate hundreds of sentences; these are found by the export's file and the lengths.
"""

import contextlib
import hashlib
import os
import pickle
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.monitoring
from jax.experimental.serialize_executable import deserialize_and_load, serialize

from common_jax.errors import UserError
from common_jax.io.atomic import replace_bytes
from common_jax.io.parameters import named_parameters
from common_jax.versions import versions

FOLDER = "executables"
BYTES = 2**30  # size limit; the least recently used files are removed
_PREVENTED = OSError, UserError, ValueError, NotImplementedError, jax.errors.JaxRuntimeError


class _Cached(threading.local):
    """The number of executables that this thread has from jax's cache."""

    hits = 0

    def count(self, event: str, **_: Any) -> None:
        self.hits += event == "/jax/compilation_cache/cache_hits"


_cached = _Cached()
jax.monitoring.register_event_listener(_cached.count)


class Executables:
    """The executables of a program for arrays of different shapes.

    Attributes:
      folder: named by a digest of all that an executable depends on but the shapes: the program,
        the parameters' shapes and dtypes, versions, settings, the device and the processor. Its
        files have been compiled from a program that was checked.
    """

    def __init__(self, folder: Path, device: jax.Device):
        self.folder = folder
        self._device = device

    @classmethod
    def of(cls, program: bytes, params: Any) -> "Executables | None":
        """None if jax has no compilation cache on this machine's disks, or the parameters are no
        arrays on one device."""
        cache = jax.config.jax_compilation_cache_dir
        if not cache or "://" in cache or not params or not jax.config.jax_enable_compilation_cache:
            return None
        arrays = named_parameters(params)
        first = next(iter(arrays.values()))
        if not isinstance(first, jax.Array) or len(first.devices()) > 1:
            return None
        (device,) = first.devices()

        # all that an executable depends on
        settings = {k: v for k, v in jax.config.values.items() if "cache" not in k}
        identity = (
            hashlib.sha256(program).hexdigest(),
            sorted((name, a.shape, str(a.dtype)) for name, a in arrays.items()),
            sorted(versions().items()),
            sorted((name, repr(value)) for name, value in settings.items()),
            sorted((k, v) for k, v in os.environ.items() if k in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")),
            (device.id, device.device_kind, device.client.platform_version),
            _processor(),
        )
        folder = Path(cache, FOLDER, hashlib.sha256(repr(identity).encode()).hexdigest())
        return cls(folder, device)

    def beside(self, name: str) -> "Executables":
        """Those in another folder, for the same device."""
        return Executables(self.folder.with_name(name), self._device)

    def compiled(self, shapes: Any, lower: Callable[[], Any]) -> Any:
        """The executable for these shapes: that on disk, or that of the program which `lower`
        returns, kept unless the disk or the platform prevents it.

        One that jax has from its own cache is not kept: written again on a CPU, it lacks functions.
        """
        if (kept := self.load(shapes)) is not None:
            return kept
        lowered = lower()
        hits = _cached.hits
        executable = lowered.compile()
        if _cached.hits == hits:
            with contextlib.suppress(*_PREVENTED):
                content = pickle.dumps(serialize(executable))
                self.folder.mkdir(parents=True, exist_ok=True)
                replace_bytes(self.file(shapes), content)
                _remove_oldest(self.folder.parent)
        return executable

    def load(self, shapes: Any) -> Any:
        """The executable on disk; None if there is none."""
        file = self.file(shapes)
        with contextlib.suppress(Exception):  # a damaged file raises many kinds
            content = pickle.loads(file.read_bytes())
            os.utime(file)
            return deserialize_and_load(*content, self._device.client, [self._device])
        return None

    def file(self, shapes: Any) -> Path:
        """The file of the executable for these shapes."""
        return self.folder / hashlib.sha256(repr(shapes).encode()).hexdigest()


def _processor() -> str:
    """The instructions that the processor has."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
        return next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {platform.processor()}"


def _remove_oldest(folder: Path) -> None:
    """Removes the files that were used least recently, beyond `BYTES`."""
    states = sorted(((p.stat(), p) for p in folder.glob("*/*")), key=lambda s: -s[0].st_mtime)
    total = 0
    for state, path in states:
        total += state.st_size
        if total > BYTES:
            path.unlink(missing_ok=True)
