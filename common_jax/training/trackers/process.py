"""A tracker in a process of its own: a server's outage does not delay the run, and the last numbers
are sent even if the run is killed (Weights & Biases would lose them, MLflow wait for minutes)."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common_jax.processes import module_process

_log = logging.getLogger(__name__)

FINAL_SECONDS = 25  # for what is not sent at a run's end; schedulers kill after 30
_COMMAND = module_process(f"{__package__}.child")


class TrackerProcess:
    """A tracker's process, with the methods of `Tracker`, which neither wait nor raise.

    An outage is one warning. What the tracker's package prints is in a file of the folder.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        title: str,
        start: int,
        config: Mapping[str, Any],
        seconds: int = FINAL_SECONDS,
    ):
        """
        Args:
          folder: of the tracker's files.
          title: the run's name.
          seconds: for what is not sent at the end.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._name, self._seconds, self._warned = name, seconds, False
        self._output = folder / "output.log"
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,  # Ctrl-C does not reach it
            )
        assert self._process.stdin is not None
        self._input: int | None = self._process.stdin.fileno()
        os.set_blocking(self._input, False)
        self._relay = threading.Thread(target=self._relay_messages, daemon=True)
        self._relay.start()
        run = {"folder": str(folder.resolve()), "title": title, "start": start, "config": config}
        self._send({"name": name, **run, "seconds": seconds})

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Hands over numbers by name."""
        self._send([step, values])

    def end(self) -> None:
        """Hands over the end of the run."""
        self._input = None
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]

    def close(self) -> None:
        """Waits until all is sent, or the time is over."""
        self.end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self._seconds + 5)
        if self._process.poll() != 0:
            self._warn(f"not all is sent after {self._seconds} seconds")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._relay.join(1)

    def _send(self, line: Any) -> None:
        content = (json.dumps(line) + "\n").encode()
        try:
            if self._input is not None and os.write(self._input, content) < len(content):
                raise BlockingIOError
        except BlockingIOError:
            self._give_up("its process does not read")
        except OSError:
            self._give_up("its process has died")

    def _give_up(self, problem: str) -> None:
        self._warn(problem)
        self.end()

    def _relay_messages(self) -> None:
        """Logs the messages of the process."""
        for line in self._process.stdout or ():
            level, message = json.loads(line)
            if level == "warning":
                self._warn(message)
            else:
                _log.info("%s: %s", self._name, message)

    def _warn(self, problem: str) -> None:
        if not self._warned:
            self._warned = True
            _log.warning("%s: %s (%s)", self._name, problem, self._output)
