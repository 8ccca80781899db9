"""The application of the live page."""

import asyncio
import collections
import concurrent.futures
import hashlib
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from common_jax.errors import UserError
from launch.pages.html import STYLE
from launch.watch import page
from launch.watch.folder import WatchedFolder
from launch.watch.run import WatchedRun
from launch.web.app import STOPPING, Application, Refused

_CACHED = 16  # versions whose parts are kept


class Watch(Application):
    """The page at /, and at /live its parts as JSON.

    Files are read and charts drawn upon requests only, in one thread, as matplotlib requires.
    """

    def __init__(self, folder: WatchedFolder, hosts: Sequence[str]):
        routes = [
            Route("/", self._page),
            Route("/live", self._live),
            Route("/static/report.css", self._style),
        ]
        # Charts have style attributes, and all texts are escaped.
        policy = {"style-src": "'self' 'unsafe-inline'", "form-action": "'self'"}
        super().__init__(routes, __package__, hosts, policy=policy)
        self._folder = folder
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "watch")
        self._parts = collections.OrderedDict[str, dict[str, str]]()
        self._pending = set[asyncio.Future[Any]]()
        self._drawing_seconds = 0.0  # of computing, for the last charts
        self._thread.submit(self._refresh, None)  # imports matplotlib before the first request

    def abandon(self) -> None:
        for task in self._pending:
            task.cancel()

    async def _page(self, request: Request) -> Response:
        _, parts = await self._refreshed(request)
        title = page.printable(self._folder.path.absolute().name or str(self._folder.path))
        return HTMLResponse(page.page(title, parts))

    async def _live(self, request: Request) -> Response:
        """The parts, unless they are those of the `version` of the request."""
        version, parts = await self._refreshed(request)
        body = {"version": version, "pause": self._folder.pause(self._drawing_seconds)}
        if version != request.query_params.get("version"):
            body["parts"] = parts
        return JSONResponse(body)

    async def _style(self, request: Request) -> Response:
        return Response(STYLE, media_type="text/css")

    async def _refreshed(self, request: Request) -> tuple[str, dict[str, str]]:
        chosen = request.query_params.getlist("run") if "run" in request.query_params else None
        loop = asyncio.get_running_loop()
        task = loop.run_in_executor(self._thread, self._refresh, chosen)
        self._pending.add(task)
        try:
            return await task
        except UserError as error:
            raise Refused(503, page.printable(str(error))) from None
        except asyncio.CancelledError:
            if not self.stopping:
                raise
            raise Refused(503, STOPPING) from None
        finally:
            self._pending.discard(task)

    def _refresh(self, names: Sequence[str] | None) -> tuple[str, dict[str, str]]:
        """The version and the parts for the named runs; None is `page.initially_chosen`."""
        self._folder.look()
        runs = [*self._folder.runs.values()]
        chosen = [run for run in runs if page.printable(run.name) in (names or ())]
        chosen = page.initially_chosen(runs) if names is None else chosen
        version = _version(runs, chosen)
        began = time.thread_time()
        if version not in self._parts:
            self._parts[version] = page.parts(runs, chosen)
        self._drawing_seconds = time.thread_time() - began
        self._parts.move_to_end(version)
        while len(self._parts) > _CACHED:
            self._parts.popitem(last=False)
        return version, self._parts[version]


def _version(runs: Sequence[WatchedRun], chosen: Sequence[WatchedRun]) -> str:
    """A digest of all that the parts show."""
    state = ([(run.name, run.version) for run in runs], [run.name for run in chosen])
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]
