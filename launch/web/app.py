"""Applications: static files, limits on hosts, security headers, errors as JSON."""

import contextlib
import importlib.resources
import json
import logging
import re
import time
import traceback
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

POLICY = {
    **{"default-src": "'none'", "script-src": "'self'", "style-src": "'self'"},
    **{"img-src": "'self'", "connect-src": "'self'", "base-uri": "'none'"},
    **{"form-action": "'none'", "frame-ancestors": "'none'"},
}
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LOCAL = ("localhost", "127.0.0.1", "::1")
STOPPING = "the server is stopping"
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Refused(Exception):  # noqa: N818 (an error of the request)
    """A request that is refused with an error.

    Attributes:
      status: of HTTP.
      message: one line, for the client.
      headers: of the response.
    """

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}


class Application:
    """Routes with those of all servers: /healthz, and /static/FILE for the files in the folders
    `static` of this package and of the command's.

    Attributes:
      app: the ASGI application.
      stopping: whether the server has stopped accepting requests.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        package: str,
        hosts: Sequence[str] = (),
        log: bool = False,
        policy: Mapping[str, str] = MappingProxyType({}),
    ):
        """
        Args:
          package: of the command.
          hosts: names of this server, beside its address and localhost; requests for others are
            refused.
          log: whether to log the method, the path and the status of each request.
          policy: directives of the content security policy that replace those of `POLICY`.
        """
        self.stopping = False
        self._files = {**_static_files("launch.web"), **_static_files(package)}
        handlers: Mapping[Any, Any] = {
            Refused: _refused,
            HTTPException: _http_error,
            Exception: _bug,
        }
        shared = [Route("/static/{file}", self._file), Route("/healthz", self._health)]
        inner = Starlette(routes=[*routes, *shared], exception_handlers=handlers)
        inner.router.redirect_slashes = False
        directives = (f"{name} {value}" for name, value in {**POLICY, **policy}.items())
        headers = HEADERS | {"content-security-policy": "; ".join(directives)}
        self.app: ASGIApp = Outermost(AllowedHosts(inner, hosts), headers, log)

    def abandon(self) -> None:
        """Answers all requests that wait with status 503, if any can wait."""

    async def _file(self, request: Request) -> Response:
        name = request.path_params["file"]
        if name not in self._files:
            raise Refused(404, "no such file")
        return Response(self._files[name], media_type=_TYPES[name.rpartition(".")[2]])

    async def _health(self, request: Request) -> Response:
        if self.stopping:
            raise Refused(503, STOPPING)
        return JSONResponse({"status": "ok"})


class AllowedHosts:
    """Middleware that refuses requests for unknown hosts, so that another site whose name resolves
    to this server (DNS rebinding) cannot read its answers."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]):
        self._app, self._hosts = app, {*LOCAL, *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = scope.get("server") or ("",)
        host = dict(scope.get("headers", ())).get(b"host", b"")
        name = re.sub(r":\d*$", "", host.decode("latin-1")).strip("[]").lower()
        app = self._app
        if scope["type"] == "http" and name not in self._hosts | {server[0]}:
            app = error_response(421, "host: not a name of this server (--allowed_hosts)")
        await app(scope, receive, send)


class Outermost:
    """Middleware that adds headers, and logs requests and errors."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str], log: bool):
        self._app, self._log_requests = app, log
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            _log.error("%s", describe(error))
        finally:
            if self._log_requests:
                path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
                seconds = time.perf_counter() - begun
                _log.info("%s %s %d %.3f s", scope["method"], path, status, seconds)


def describe(error: BaseException) -> str:
    """The type and location of an error, without its message, which may quote a request."""
    frames = traceback.extract_tb(error.__traceback__)
    locations = " < ".join(f"{f.filename}:{f.lineno} {f.name}" for f in reversed(frames[-5:]))
    return f"{type(error).__name__} in {locations}"


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """An error as JSON."""
    body = json.dumps({"error": {"status": status, "message": message}})
    return Response(f"{body}\n", status, headers, "application/json")


def _static_files(package: str) -> dict[str, bytes]:
    """The contents of the files in the folder `static` of a package, by name."""
    with contextlib.suppress(FileNotFoundError):
        folder = importlib.resources.files(package) / "static"
        return {
            file.name: file.read_bytes()
            for file in folder.iterdir()
            if file.name.rpartition(".")[2] in _TYPES
        }
    return {}


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error_response(error.status, error.message, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """For an unknown path, or a method that its route lacks."""
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, error.detail, error.headers)


async def _bug(request: Request, error: Exception) -> Response:
    return error_response(500, "internal error")
