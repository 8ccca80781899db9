"""The HTTP server: uvicorn with a limit on the time of headers, and a graceful stop."""

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from common_jax.errors import UserError
from launch.web.app import Application

_log = logging.getLogger(__name__)

HEADER_SECONDS = 10.0  # for the headers of a request
DRAIN_SECONDS = 6.0  # after a signal, for requests in flight, then answered with 503
STOP_SECONDS = 8  # after a signal, until connections are closed


class Protocol(H11Protocol):
    """HTTP/1.1 with a limit on the time of headers, also to clients that close their side.

    uvicorn (0.54) limits only the time between requests: a connection on which no header or half of
    one arrives stays open forever.
    """

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._set_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_timer()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open for an answer after the client has closed its side."""
        return self._in_request()

    def send_400_response(self, msg: str) -> None:
        self._refuse("400 Bad Request", msg)

    def _refuse(self, status: str, text: str) -> None:
        """Answers and closes. The content length marks the answer as complete for a client that is
        still sending and will see the connection reset."""
        head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n{text}".encode("ascii"))
        self.transport.close()

    def _in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _set_timer(self) -> None:
        """Starts the timer of the next request's headers, or stops it if they are complete."""
        if self._in_request():
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEADER_SECONDS, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        if not self._in_request() and not self.transport.is_closing():
            self._refuse("408 Request Timeout", "")


class Server(uvicorn.Server):
    """A server that stops upon SIGTERM or SIGINT: it answers the requests in flight and returns."""

    def __init__(self, application: Application):
        super().__init__(
            uvicorn.Config(
                application.app,
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )
        self._application = application

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Unlike uvicorn's, does not repeat the signals afterwards."""
        numbers = (signal.SIGTERM, signal.SIGINT)
        handlers = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.stopping = True
        asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._application.abandon)
        await super().shutdown(sockets)


def serve(application: Application, listening: socket.socket, what: str) -> NoReturn:
    """Serves until a signal; then exits with status 0, without waiting for what is still computed.

    Args:
      what: what is served, for the printed line with the address.
    """
    if not _is_loopback(listening.getsockname()[0]):
        _log.warning("other machines can reach this server, which has no password")
    print(f"serving {what} at {address(listening)}/", flush=True)
    Server(application).run([listening])
    sys.stdout.flush()
    os._exit(0)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
      UserError: if there is none for this address.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"--host {host} --port {port}: {reason}") from error


def address(listening: socket.socket) -> str:
    """The address of a listening socket, for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # an IPv6 address with a scope
        return False
