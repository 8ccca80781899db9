"""The application: pages and predictions, limits on requests."""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from launch.serve import models, openapi, pages, reference
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from launch.serve.models import Model
from launch.web.app import Application, Refused


class Service(Application):
    """Models and their counts, behind the routes."""

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
          hosts, log: as of `Application`.
        """
        self._models = {model.name: model for model in served}
        self._limits, self._metrics = limits, metrics
        routes = [
            Route("/", self._index),
            Route("/models/{name}", self._page),
            Route("/docs", self._docs),
            Route("/v1/models", self._list),
            Route("/v1/models/{name}:predict", self._predict, methods=["POST"]),
            Route("/openapi.json", self._openapi),
            Route("/metrics", self._measured),
        ]
        super().__init__(routes, __package__, hosts, log)
        self.app = Counted(self.app, metrics)

    def abandon(self) -> None:
        for model in self._models.values():
            model.abandon()

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
        """The body; raises Refused unless it is declared as JSON, small enough and in time."""
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


class Counted:
    """Middleware that counts the requests that have not been answered."""

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._metrics.in_flight.track_inprogress():
            await self._app(scope, receive, send)


def _outputs(answers: Sequence[str | Refused], refusals: Sequence[Refused]) -> Response:
    """The answers in order, with an error for each unusable input; the status and the "error" of
    the response are the first error's."""
    outputs = [json.dumps({"error": a.message}) if isinstance(a, Refused) else a for a in answers]
    body = f'"outputs": [{", ".join(outputs)}]'
    if not refusals:
        return Response(f"{{{body}}}\n", media_type="application/json")
    first = json.dumps({"status": refusals[0].status, "message": refusals[0].message})
    text = f'{{"error": {first}, {body}}}\n'
    return Response(text, refusals[0].status, media_type="application/json")
