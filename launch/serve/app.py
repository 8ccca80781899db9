"""The application: routes, limits on requests, security headers, errors as JSON."""

import asyncio
import importlib.resources
import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from launch.serve import models, openapi, pages
from launch.serve.batching import STOPPING, describe
from launch.serve.limits import Limits, Refused
from launch.serve.metrics import Metrics
from launch.serve.models import Model

_log = logging.getLogger(__name__)

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LOCAL = ("localhost", "127.0.0.1", "::1")
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Service:
    """Models and their counts, behind the routes.

    Attributes:
      app: the ASGI application.
      stopping: whether the server has stopped accepting requests.
    """

    def __init__(
        self,
        served: Sequence[Model],
        limits: Limits,
        metrics: Metrics,
        log: bool,
        hosts: Sequence[str] = (),
    ):
        """
        Args:
          hosts: names of this server, beside its address and localhost; requests for others are
            refused.
          log: whether to log the method, the path and the status of each request.
        """
        self._models = {model.name: model for model in served}
        self._limits, self._metrics, self.stopping = limits, metrics, False
        self._files = _static_files()
        routes = [
            Route("/", self._index),
            Route("/models/{name}", self._page),
            Route("/static/{file}", self._file),
            Route("/v1/models", self._list),
            Route("/v1/models/{name}:predict", self._predict, methods=["POST"]),
            Route("/openapi.json", self._openapi),
            Route("/healthz", self._health),
            Route("/metrics", self._measured),
        ]
        handlers: Mapping[Any, Any] = {
            Refused: _refused,
            HTTPException: _http_error,
            Exception: _bug,
        }
        inner = Starlette(routes=routes, exception_handlers=handlers)
        inner.router.redirect_slashes = False
        self.app: ASGIApp = Outermost(AllowedHosts(inner, hosts), metrics, log)

    def abandon(self) -> None:
        """Answers all requests that wait with status 503."""
        for model in self._models.values():
            model.abandon()

    async def _index(self, request: Request) -> Response:
        return HTMLResponse(pages.index([*self._models.values()]))

    async def _page(self, request: Request) -> Response:
        model = self._model(request)
        return HTMLResponse(pages.model_page(model, [*self._models.values()]))

    async def _file(self, request: Request) -> Response:
        name = request.path_params["file"]
        if name not in self._files:
            raise Refused(404, "no such file")
        return Response(self._files[name], media_type=_TYPES[name.rpartition(".")[2]])

    async def _list(self, request: Request) -> Response:
        return JSONResponse({"models": [models.described(m) for m in self._models.values()]})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(openapi.document([*self._models.values()], self._limits))

    async def _health(self, request: Request) -> Response:
        if self.stopping:
            raise Refused(503, STOPPING)
        return JSONResponse({"status": "ok"})

    async def _measured(self, request: Request) -> Response:
        return Response(self._metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def _predict(self, request: Request) -> Response:
        model, begun = self._model(request), time.perf_counter()
        status = 500
        try:
            parsed = models.Request.of(await self._body(request), self._limits)
            try:
                async with asyncio.timeout(self._limits.timeout):
                    answers = await model.answer(parsed)
            except TimeoutError:
                raise Refused(504, f"no answer within {self._limits.timeout:g} s") from None
            refusals = [answer for answer in answers if isinstance(answer, Refused)]
            status = refusals[0].status if refusals else 200
        except Refused as refused:
            status = refused.status
            raise
        finally:
            self._metrics.requests.labels(model.name, status).inc()
            self._metrics.seconds.labels(model.name).observe(time.perf_counter() - begun)
        self._metrics.inputs.labels(model.name).inc(len(answers) - len(refusals))
        return _outputs(answers, refusals)

    async def _body(self, request: Request) -> bytes:
        """The body, which must be JSON, small enough and in time."""
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise Refused(415, "content-type: must be application/json")
        close, most = {"connection": "close"}, self._limits.body
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > most:
            raise Refused(413, f"body: more than {most} bytes", close)
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.timeout):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise Refused(413, f"body: more than {most} bytes", close)
        except TimeoutError:
            raise Refused(408, "body: did not arrive in time", close) from None
        except ClientDisconnect:
            raise Refused(400, "body: incomplete", close) from None
        return bytes(body)

    def _model(self, request: Request) -> Model:
        model = self._models.get(request.path_params["name"])
        if model is None:
            raise Refused(404, "no such model; GET /v1/models lists them")
        return model


class AllowedHosts:
    """Middleware that answers only requests for a known host: a page of another site, whose name
    can be made to lead to this server (DNS rebinding), is not to read its answers."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]):
        self._app, self._hosts = app, {*LOCAL, *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        server = scope.get("server") or ("",)
        host = dict(scope.get("headers", ())).get(b"host", b"")
        name = re.sub(r":\d*$", "", host.decode("latin-1")).strip("[]").lower()
        app = self._app
        if scope["type"] == "http" and name not in self._hosts | {server[0]}:
            app = _error(421, "host: not a name of this server (--allowed_hosts)")
        await app(scope, receive, send)


class Outermost:
    """Middleware that adds headers, and counts and logs requests and errors."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: bool):
        self._app, self._metrics, self._log_requests = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message.get("headers", ()), *headers]}
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            _log.error("%s", describe(error))
        finally:
            self._metrics.in_flight.dec()
            if self._log_requests:
                path = scope.get("raw_path", b"").decode("ascii", "backslashreplace")
                seconds = time.perf_counter() - begun
                _log.info("%s %s %d %.3f s", scope["method"], path, status, seconds)


def _static_files() -> dict[str, bytes]:
    """The contents of the files in `static`, by name."""
    folder = importlib.resources.files(__package__) / "static"
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.name.rpartition(".")[2] in _TYPES
    }


def _outputs(answers: Sequence[str | Refused], refusals: Sequence[Refused]) -> Response:
    """The answers in order. With inputs that could not be used, whose place has an error, the
    response is that of the first error, too."""
    outputs = [json.dumps({"error": a.message}) if isinstance(a, Refused) else a for a in answers]
    body = f'"outputs": [{", ".join(outputs)}]'
    if not refusals:
        return Response(f"{{{body}}}\n", media_type="application/json")
    first = json.dumps({"status": refusals[0].status, "message": refusals[0].message})
    text = f'{{"error": {first}, {body}}}\n'
    return Response(text, refusals[0].status, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _error(error.status, error.message, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Of the routes: an unknown path, or a method that it does not have."""
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error.detail, error.headers)


async def _bug(request: Request, error: Exception) -> Response:
    return _error(500, "internal error")


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps({"error": {"status": status, "message": message}})
    return Response(f"{body}\n", status, headers, "application/json")
