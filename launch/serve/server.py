"""The HTTP server: uvicorn with security headers, and its graceful stop."""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from common_jax.errors import UserError
from launch.serve.app import Service

_log = logging.getLogger(__name__)

STOP_SECONDS = 6  # after a signal, for requests in flight; then they are cancelled
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
    ("content-security-policy", POLICY),
]


class Protocol(H11Protocol):
    """HTTP/1.1 that also answers clients that have closed their side, or that still send."""

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open, for the answer to a request."""
        return self.cycle is not None and not self.cycle.response_complete

    def send_400_response(self, msg: str) -> None:
        """Answers and closes. The content length marks the answer as complete for a client that is
        still sending and will see the connection reset."""
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-length: {len(msg)}\r\nconnection: close"
        self.transport.write(f"{head}\r\ncontent-type: text/plain\r\n\r\n{msg}".encode("ascii"))
        self.transport.close()


def run(app: ASGIApp, listening: socket.socket, prepare: Callable[[], None]) -> None:
    """Serves until SIGTERM or SIGINT, then answers the requests in flight.

    Args:
      prepare: runs in a thread, beside the first requests; an error ends the server and is raised.
    """
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        headers=HEADERS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    server = uvicorn.Server(config)
    errors = []

    def prepared() -> None:
        try:
            prepare()
        except Exception as error:
            errors.append(error)
            server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)  # else uvicorn's repetition ends the process
    threading.Thread(target=prepared, daemon=True).start()
    server.run([listening])
    if errors:
        raise errors[0]


def serve(service: Service, listening: socket.socket, what: str, lazy: bool) -> NoReturn:
    """Serves until a signal; then exits with status 0, without waiting for what is still computed.

    Args:
      what: what is served, for the line with the address that is printed when it is ready.
      lazy: whether programs are compiled when texts need them, not before.
    """
    host = listening.getsockname()[0]
    if host != "::1" and not host.startswith("127."):
        _log.warning("other machines can reach this server, which has no password")

    def prepare() -> None:
        if not lazy:
            service.warm_up()
        service.ready = True
        print(f"serving {what} at {address(listening)}/", flush=True)

    run(service, listening, prepare)
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
