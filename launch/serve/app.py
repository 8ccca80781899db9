"""The application: pages and predictions, limits on requests."""

import asyncio
import contextlib
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

from common_jax.deploy.predictor import available_cores
from common_jax.io.threads import threaded_map
from launch.failures import location
from launch.serve import models, openapi, pages, reference
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from launch.serve.models import Model

_log = logging.getLogger(__name__)

_LOCAL = ("localhost", "127.0.0.1", "::1")
_FOREIGN = "host: not a name of this server (--allowed_hosts)"
_CLOSE = {"connection": "close"}


class Service:
    """An ASGI application: models and their counts, behind the routes.

    Attributes:
      ready: whether /readyz says so: set when the programs are compiled.
    """

    ready = False

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
          log: whether to log the method, the path and the status of each request.
          hosts: names of this server, beside its address and localhost; requests for others are
            refused, so that another site whose name resolves to this server (DNS rebinding) cannot
            read its answers.
        """
        self._models = {model.name: model for model in served}
        self._limits = limits
        self._metrics = metrics
        self._log_requests = log
        self._hosts = {*_LOCAL, *(host.lower() for host in hosts)}

        routes = [
            Route("/", self._index),
            Route("/models/{name}", self._page),
            Route("/docs", self._docs),
            Route("/v1/models", self._list),
            Route("/v1/models/{name}:predict", self._predict, methods=["POST"]),
            Route("/openapi.json", self._openapi),
            Route("/metrics", self._measured),
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Mount("/static", StaticFiles(packages=[(__package__, "static")])),
        ]

        handlers: Mapping[Any, Any] = {HTTPException: _refused, Exception: _bug}
        self._app = Starlette(routes=routes, exception_handlers=handlers)
        self._app.router.redirect_slashes = False

    def warm_up(self) -> None:
        """Compiles the programs of all models, some at a time.

        Raises:
          UserError: if a model cannot answer.
        """
        for _ in threaded_map(Model.warm_up, self._models.values(), available_cores()):
            pass

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request unless its host is another's; counts and logs it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 0

        async def sent(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        app = self._app if self._is_named(scope) else _error(421, _FOREIGN)
        try:
            with self._metrics.in_flight.track_inprogress():
                await app(scope, receive, sent)
        except Exception as error:  # answered by `_bug`
            _log.error("%s", location(error))
        finally:
            if self._log_requests:
                path = scope["raw_path"].decode("ascii", "backslashreplace")
                seconds = time.perf_counter() - begun
                _log.info("%s %s %d %.3f s", scope["method"], path, status, seconds)

    def _is_named(self, scope: Scope) -> bool:
        """Whether a request is for a name of this server, or the address at which it arrived."""
        host = Headers(scope=scope).get("host", "")
        name = re.sub(r":\d*$", "", host).strip("[]").lower()
        return name in self._hosts or name == scope["server"][0]

    async def _index(self, request: Request) -> Response:
        return HTMLResponse(pages.index([*self._models.values()]))

    async def _page(self, request: Request) -> Response:
        model = self._model(request)
        return HTMLResponse(pages.model_page(model, [*self._models.values()]))

    async def _docs(self, request: Request) -> Response:
        return HTMLResponse(reference.page(self._description(), str(request.base_url)))

    async def _list(self, request: Request) -> Response:
        return JSONResponse({"models": [models.described(m) for m in self._models.values()]})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(self._description())

    def _description(self) -> dict[str, Any]:
        return openapi.document([*self._models.values()], self._limits)

    async def _measured(self, request: Request) -> Response:
        return Response(self._metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _readiness(self, request: Request) -> Response:
        if not self.ready:
            raise HTTPException(503, "compiling the programs")
        return JSONResponse({"status": "ok"})

    async def _predict(self, request: Request) -> Response:
        model = self._model(request)
        begun = time.perf_counter()
        status = 500
        try:
            parsed = models.Request.of(await self._body(request), self._limits)
            answers = await self._answers(model, parsed)
            refusals = [answer for answer in answers if isinstance(answer, HTTPException)]
            status = refusals[0].status_code if refusals else 200
        except HTTPException as refused:
            status = refused.status_code
            raise
        finally:
            self._metrics.requests.labels(model.name, status).inc()
            self._metrics.seconds.labels(model.name).observe(time.perf_counter() - begun)

        self._metrics.inputs.labels(model.name).inc(len(answers) - len(refusals))
        return _outputs(answers, refusals)

    async def _answers(self, model: Model, parsed: models.Request) -> Sequence[str | HTTPException]:
        """A model's answers; the time in which it compiles does not count.

        Raises:
          HTTPException: as `Model.answer`; with status 504, if there are none in time.
        """
        timeout = self._limits.timeout
        async with self._in_time(504, f"no answer within {timeout:g} s") as limit:
            answering = asyncio.create_task(model.answer(parsed))
            try:
                while not (await asyncio.wait({answering}, timeout=timeout / 4))[0]:
                    if model.compiling:
                        limit.reschedule(asyncio.get_running_loop().time() + timeout)
                return answering.result()
            finally:
                answering.cancel()

    async def _body(self, request: Request) -> bytes:
        """The body.

        Raises:
          HTTPException: unless it is declared as JSON, small enough and in time.
        """
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise HTTPException(415, "content-type: must be application/json")

        # as declared
        most = self._limits.body
        too_large = HTTPException(413, f"body: more than {most} bytes", _CLOSE)
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > most:
            raise too_large

        # as it arrives
        body = bytearray()
        try:
            async with self._in_time(408, "body: did not arrive in time", _CLOSE):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise too_large
        except ClientDisconnect:
            raise HTTPException(400, "body: incomplete", _CLOSE) from None
        return bytes(body)

    @contextlib.asynccontextmanager
    async def _in_time(
        self, status: int, message: str, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[asyncio.Timeout]:
        """Raises HTTPException if the block takes longer than a request may, or if the server
        stops; yields the limit."""
        try:
            async with asyncio.timeout(self._limits.timeout) as limit:
                yield limit
        except TimeoutError:
            raise HTTPException(status, message, headers) from None
        except asyncio.CancelledError:  # by uvicorn, at the end of its graceful stop
            raise HTTPException(503, "the server is stopping", headers) from None

    def _model(self, request: Request) -> Model:
        model = self._models.get(request.path_params["name"])
        if model is None:
            raise HTTPException(404, "no such model; GET /v1/models lists them")
        return model


def _outputs(answers: Sequence[str | HTTPException], refusals: Sequence[HTTPException]) -> Response:
    """The answers in order, with an error for each unusable input; the status and the "error" of
    the response are the first error's."""
    outputs = [
        json.dumps({"error": answer.detail}) if isinstance(answer, HTTPException) else answer
        for answer in answers
    ]
    body = f'"outputs": [{", ".join(outputs)}]'
    if not refusals:
        return Response(f"{{{body}}}\n", media_type="application/json")
    first = json.dumps({"status": refusals[0].status_code, "message": refusals[0].detail})
    text = f'{{"error": {first}, {body}}}\n'
    return Response(text, refusals[0].status_code, media_type="application/json")


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = json.dumps({"error": {"status": status, "message": message}})
    return Response(f"{body}\n", status, headers, "application/json")


async def _refused(request: Request, error: HTTPException) -> Response:
    return _error(error.status_code, error.detail, error.headers)


async def _bug(request: Request, error: Exception) -> Response:
    return _error(500, "internal error")
