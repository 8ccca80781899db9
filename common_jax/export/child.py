"""Compiles and runs an untrusted export's programs in a process with limits of time and memory.

The two exchange file names, JSON and safetensors: nothing that the process sends is executed. The
process reads no other files than those that were verified, and ends with this one.
"""

import contextlib
import dataclasses
import functools
import json
import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from common_jax.errors import UserError
from common_jax.fields import require
from common_jax.predictor import Compute, InputTooLargeError
from common_jax.processes import module_process

ERRORS = {"error": UserError, "too large": InputTooLargeError}  # by their names in an answer
_MODULE = "common_jax.export.child_main"
_LONGEST = 2**30  # bytes of an answer
_TICK = 0.05  # seconds between two checks of the limits
_LATER = 1.0  # seconds after its limit, at which the process ends by itself
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a process.

    Attributes:
      seconds: of a call, with the compilation of its program.
      memory: resident bytes; not limited where the system has no /proc.
    """

    seconds: float = 120.0
    memory: int = 4 * 2**30

    def __post_init__(self):
        require(self.seconds > 0, f"--max_seconds {self.seconds:g}: above 0")
        require(self.memory >= 2**28, f"memory={self.memory}: at least 2^28 bytes")


class ChildPrograms:
    """The programs of the export in a folder, in a process that starts at the first call. Calls of
    several threads are serialized."""

    def __init__(self, path: Path, digests: Mapping[str, str] | None, limits: Limits):
        """
        Args:
          digests: as of `common_jax.export.stablehlo.Programs`.
        """
        self._path, self._digests, self._limits = path, digests, limits
        self._lock = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._connection: Connection | None = None

    def compute(self, file: str, memory: float) -> Compute:
        """As `common_jax.export.stablehlo.Programs.compute`.

        Raises:
          UserError: also if the program fails, or exceeds a limit.
        """
        self._call(file, memory, None)
        return functools.partial(self._call, file, memory)

    def _call(self, file: str, memory: float, arrays: Mapping[str, np.ndarray] | None) -> Any:
        """The outputs of a program, a tree of arrays; None as `arrays` only reads the program."""
        with self._lock:
            try:
                return self._answer(file, memory, arrays)
            except (EOFError, OSError, ValueError, SafetensorError) as error:
                raise UserError(f"{self._place(file)}: {self._reason(error)}") from error
            except UserError:
                raise
            except BaseException:  # interrupted: the next call would receive this one's answer
                self.stop()
                raise

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None and self._connection is not None:
            self._process.kill()
            self._process.wait()
            self._connection.close()
        self._process = self._connection = None

    def _answer(self, file: str, memory: float, arrays: Mapping[str, np.ndarray] | None) -> Any:
        connection = self._connection or self._start()
        deadline = time.monotonic() + self._limits.seconds
        connection.send_bytes(json.dumps({"program": file, "memory": memory}).encode())
        inputs = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
        connection.send_bytes(b"" if arrays is None else save(inputs))
        answer = json.loads(self._receive(file, deadline))
        if not isinstance(answer, dict) or len(answer) != 1:
            raise ValueError("an answer of another form")
        for name, error in ERRORS.items():
            if name in answer:
                raise error(str(answer[name])[:1000])
        return _with_arrays(answer["tree"], load(self._receive(file, deadline)))

    def _receive(self, file: str, deadline: float) -> bytes:
        """The next message; raises UserError when a limit is exceeded."""
        assert self._connection is not None and self._process is not None
        while not self._connection.poll(_TICK):
            exceeded = self._exceeded(deadline)
            if exceeded:
                self.stop()
                raise UserError(f"{self._place(file)}: {exceeded}, and was ended")
        return self._connection.recv_bytes(_LONGEST)

    def _exceeded(self, deadline: float) -> str:
        """Which limit the process has exceeded; "" if none."""
        assert self._process is not None
        if time.monotonic() > deadline:
            return f"ran for more than {self._limits.seconds:g} s"
        if _resident(self._process.pid) > self._limits.memory:
            return f"used more than {self._limits.memory / 2**30:g} GiB of memory"
        return ""

    def _start(self) -> Connection:
        ours, theirs = multiprocessing.Pipe()
        seconds = str(self._limits.seconds + _LATER)
        with theirs:
            self._process = subprocess.Popen(
                module_process(_MODULE, str(theirs.fileno()), str(self._path), seconds),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._connection = ours
        ours.send_bytes(json.dumps(self._digests).encode())
        return ours

    def _reason(self, error: Exception) -> str:
        """Why a call failed; ends the process."""
        process = self._process
        if process is not None and isinstance(error, EOFError | OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(1)
                how = signal.Signals(-code).name if code < 0 else f"status {code}"
                self.stop()
                return f"ended its process ({how})"
        self.stop()
        return f"gave no answer that can be read ({error})"

    def _place(self, file: str) -> str:
        return str(self._path / file)


def _with_arrays(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """A tree whose leaves are names of arrays, with the arrays; raises ValueError for others."""
    if isinstance(tree, dict):
        return {name: _with_arrays(value, arrays) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_with_arrays(value, arrays) for value in tree]
    if str(tree) not in arrays:
        raise ValueError(f"no array {str(tree)[:20]}")
    return arrays[str(tree)]


def _resident(process: int) -> int:
    """The resident bytes of a process; 0 where they are unknown."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0
