"""A Cloud Storage service for tests: `gcp-storage-emulator` behind a proxy.

The emulator ignores preconditions and byte ranges of a listing, crashes on an empty object, and
serves one request at a time. The proxy answers 412 and 304 as the service does, and injects
failures, delays and refusals.
"""

import contextlib
import json
import logging
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gcp_storage_emulator.server import create_server

from common_jax.io import bucket, bucket_state

BUCKET = "bucket"


class Service:
    """A running service with one bucket.

    Attributes:
      environment: of processes that use it.
      failure_rate: share of requests answered 503, half of them after they were carried out.
      seconds: added to each request.
      denied: the methods answered 403.
      requests: the number of requests by method and status.
    """

    def __init__(self, url: str, upstream: str, storage):
        self.environment = {"TENSORSTORE_GCS_HTTP_URL": url}
        self.upstream, self._storage = upstream, storage
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Removes all objects and injected faults."""
        self.failure_rate, self.seconds, self.denied = 0.0, 0.0, ()
        self.requests: Counter[str] = Counter()
        self.random = random.Random(0)
        self._storage.wipe(keep_buckets=True)

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """The content of each object under a prefix, by name."""
        with self.lock:
            files, _ = self._storage.get_file_list(BUCKET, prefix or None, None, None)
            names = sorted(file["name"] for file in files)
            return {name: self._storage.get_file(BUCKET, name) for name in names}

    def put(self, name: str, content: bytes) -> None:
        quoted = urllib.parse.quote(name, safe="")
        url = f"{self.upstream}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={quoted}"
        urllib.request.urlopen(urllib.request.Request(url, content, method="POST")).read()

    def generation(self, name: str) -> str:
        """An object's generation; "0" if there is none."""
        try:
            return self._storage.get_file_obj(BUCKET, name)["generation"]
        except Exception:
            return "0"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for a small answer
    service: Service

    def _handle(self) -> None:
        service = self.service
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if service.seconds:
            time.sleep(service.seconds)
        failing = service.random.random() < service.failure_rate
        carried_out = failing and service.random.random() < 0.5
        if self.command in service.denied:
            status, headers, content = _error(HTTPStatus.FORBIDDEN, "no permission")
        elif failing and not carried_out:
            status, headers, content = _error(HTTPStatus.SERVICE_UNAVAILABLE, "backend error")
        else:
            with service.lock:
                status, headers, content = self._answer(body)
            if carried_out:
                status, headers, content = _error(HTTPStatus.SERVICE_UNAVAILABLE, "backend error")
        service.requests[f"{self.command} {status}"] += 1
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        with contextlib.suppress(OSError):  # the client was killed
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815

    def _answer(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """The emulator's answer, unless a precondition of the request does not hold."""
        parsed = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parsed.query))
        _, _, quoted = parsed.path.partition("/o/")
        name = query.get("name") or urllib.parse.unquote(quoted)
        generation = self.service.generation(name) if name else "0"
        if query.get("ifGenerationMatch", generation) != generation:
            return _error(HTTPStatus.PRECONDITION_FAILED, "conditionNotMet")
        if query.get("ifGenerationNotMatch") == generation and generation != "0":
            return HTTPStatus.NOT_MODIFIED, {}, b""
        if quoted and generation == "0":
            return _error(HTTPStatus.NOT_FOUND, "no such object")
        headers = {k: self.headers[k] for k in ("Content-Type", "Range") if k in self.headers}
        path = self.path
        if self.command == "POST" and not body:  # the emulator fails without a content
            path = path.replace("uploadType=media", "uploadType=multipart")
            headers["Content-Type"] = "multipart/related; boundary=part"
            head = json.dumps({"name": name})
            body = (
                f"--part\r\nContent-Type: application/json\r\n\r\n{head}\r\n"
                "--part\r\nContent-Type: application/octet-stream\r\n\r\n\r\n--part--"
            ).encode()
        request = urllib.request.Request(
            self.service.upstream + path, body or None, headers, method=self.command
        )
        try:
            with urllib.request.urlopen(request) as answer:
                status, content = answer.status, answer.read()
                found = {k: v for k, v in answer.headers.items() if k == "Content-Range"}
        except urllib.error.HTTPError as error:
            return _error(HTTPStatus(error.code), error.reason)
        if query.get("alt") == "media":
            found["x-goog-generation"] = generation
        elif self.command == "GET":
            content = _within(json.loads(content), query)
            found["Content-Type"] = "application/json"
        return status, found, content

    def log_message(self, format: str, *args: object) -> None:
        pass


def _within(listing: dict, query: dict[str, str]) -> bytes:
    """A listing without the objects outside of the range that was requested."""
    first, end = query.get("startOffset", ""), query.get("endOffset", "")
    items = [item for item in listing.get("items", ()) if item["name"] >= first]
    listing["items"] = [item for item in items if not end or item["name"] < end]
    return json.dumps(listing).encode()


def _error(status: HTTPStatus, reason: str) -> tuple[int, dict[str, str], bytes]:
    content = {"error": {"code": int(status), "message": reason}}
    return status, {"Content-Type": "application/json"}, json.dumps(content).encode()


@contextlib.contextmanager
def running() -> Iterator[Service]:
    """Starts a service on a free port, and stops it; this process forgets those before it."""
    bucket._store.cache_clear()
    bucket_state._states.clear()
    logging.getLogger("gcp_storage_emulator").setLevel(logging.CRITICAL)
    emulator = create_server("127.0.0.1", 0, in_memory=True, default_bucket=BUCKET)
    emulator.start()
    upstream = f"http://127.0.0.1:{emulator._api._httpd.server_address[1]}"
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    url = f"http://127.0.0.1:{proxy.server_address[1]}"
    _Handler.service = Service(url, upstream, emulator._storage)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield _Handler.service
    finally:
        proxy.shutdown()
        proxy.server_close()
        emulator.stop()
