"""Waits for all processes of a run at the coordinator's port, before JAX uses it.

JAX itself waits without a message, does not name the missing processes, and aborts with a native
stack trace.
"""

import contextlib
import json
import logging
import os
import re
import select
import socket
import time
from collections.abc import Sequence

from common_jax.errors import UserError

LOG_SECONDS = 60  # from the start to the first message, and between two
_POLL_SECONDS = 0.5
_GREETING = re.compile(rb"conv-attention ([0-9]+) ([0-9]+)\n")
_ANSWER_SECONDS = 5.0

_log = logging.getLogger(__name__)


def meet(address: str, count: int, number: int, seconds: float, advice: str = "") -> None:
    """Returns once all processes of a run have called it.

    Args:
      address: HOST:PORT of process 0.
      count: number of processes.
      number: of this one, from 0.
      seconds: time limit.
      advice: end of the messages.

    Raises:
      UserError: if a process is missing then, or if two have the same number.
    """
    waiting = _Waiting(address, count, seconds, advice)
    host, _, port = address.rpartition(":")
    if number:
        _join(host.strip("[]"), int(port), number, waiting)
    else:
        with _listen(os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", address)) as server:
            _gather(server, waiting)


class _Waiting:
    """Logs the missing processes once a minute, and raises a UserError at the time limit."""

    def __init__(self, address: str, count: int, seconds: float, advice: str):
        self.address, self.count, self._advice = address, count, advice
        self._began = time.monotonic()
        self._end, self._next = self._began + seconds, self._began + LOG_SECONDS

    def report(self, missing: Sequence[int], reason: str = "") -> None:
        """Logs the numbers of the missing processes if a minute has passed.

        Raises:
          UserError: after the time limit.
        """
        now = time.monotonic()
        if not missing or now < min(self._next, self._end):
            return
        word = "process" if len(missing) == 1 else "processes"
        names = f"{word} {', '.join(map(str, missing))} of {self.count} (numbered from 0)"
        reason = f", {self.address}: {reason}" if reason else ""
        passed = f"{now - self._began:.0f} s"
        if now >= self._end:
            raise UserError(f"no {names} within {passed}{reason}{self._advice}")
        self._next += LOG_SECONDS
        _log.warning("waiting for %s since %s%s%s", names, passed, reason, self._advice)


def _listen(address: str) -> socket.socket:
    """A socket at the port of an address, for all interfaces, as JAX's will be."""
    port = int(address.rpartition(":")[2])
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        return socket.create_server(("", port), family=family, dualstack_ipv6=dual)
    except OSError as error:
        raise UserError(f"coordinator: port {port}: {os.strerror(error.errno or 0)}") from error


def _gather(server: socket.socket, waiting: _Waiting) -> None:
    """Waits in process 0 for the others, and sends them the numbers of the missing processes until
    there are none."""
    server.settimeout(_POLL_SECONDS)
    present = dict[int, socket.socket]()
    sent: list[int] | None = None
    with contextlib.ExitStack() as connections:
        while sent is None or sent:
            with contextlib.suppress(TimeoutError):
                connection = connections.enter_context(server.accept()[0])
                _greet(connection, waiting.count, present)
                sent = None
            for number in [number for number in present if _has_ended(present[number])]:
                del present[number]
            missing = [number for number in range(1, waiting.count) if number not in present]
            if missing != sent:
                sent = missing
                for connection in present.values():
                    _send(connection, missing)
            try:
                waiting.report(missing)
            except UserError as error:
                for connection in present.values():
                    _send(connection, str(error))
                raise
        for connection in present.values():  # they close first, which frees the port at once
            connection.settimeout(_ANSWER_SECONDS)
            with contextlib.suppress(OSError):
                connection.recv(1)


def _greet(connection: socket.socket, count: int, present: dict[int, socket.socket]) -> None:
    """Adds a process to those that are present; refuses another count or a taken number."""
    connection.settimeout(_ANSWER_SECONDS)
    with contextlib.suppress(OSError):
        greeting = _GREETING.fullmatch(connection.makefile("rb").readline(80))
        if greeting is None:
            return  # of another program
        number, its_count = int(greeting[1]), int(greeting[2])
        if its_count != count:
            _send(connection, f"process 0 is one of {count}, process {number} one of {its_count}")
        elif number in present and not _has_ended(present[number]):
            _send(connection, f"two processes have the number {number}")
        elif 0 < number < count:
            present[number] = connection


def _has_ended(connection: socket.socket) -> bool:
    return bool(select.select([connection], [], [], 0)[0])  # a process sends nothing more


def _send(connection: socket.socket, message: object) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def _join(host: str, port: int, number: int, waiting: _Waiting) -> None:
    """Connects to process 0, again if it has ended, until no process is missing."""
    while True:
        try:
            with socket.create_connection((host, port), _ANSWER_SECONDS) as connection:
                connection.sendall(b"conv-attention %d %d\n" % (number, waiting.count))
                return _wait(connection, waiting)
        except (OSError, ValueError) as error:
            waiting.report([0], getattr(error, "strerror", None) or str(error))
        time.sleep(_POLL_SECONDS)


def _wait(connection: socket.socket, waiting: _Waiting) -> None:
    missing, received = [0], b""
    while missing:
        if select.select([connection], [], [], _POLL_SECONDS)[0]:
            content = connection.recv(4096)
            if not content:
                raise ConnectionError("it has ended")
            *lines, received = (received + content).split(b"\n")
            for line in lines:
                missing = json.loads(line)
            if isinstance(missing, str):
                raise UserError(f"coordinator {waiting.address}: {missing[:300]}")
        waiting.report(missing)
