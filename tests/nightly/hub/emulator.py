"""A model hub for tests: the part of huggingface.co's API that loading and pushing a model needs.

Files of more than `LFS` bytes and all safetensors go through Git LFS, as on the hub.
"""

import base64
import contextlib
import hashlib
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_test"
LFS = 10_000


def _blob(content: bytes) -> str:
    """Git's name of a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub:
    """A running hub.

    Attributes:
      url: its address.
      commits: the files of each commit, by repository and commit.
      branches: the commit of each tag and branch, by repository.
      uploads: contents that came over LFS, by their SHA-256.
      requests: method and path of each request.
      sizes: sizes that the listing declares instead of the real ones, by path.
    """

    def __init__(self, url: str):
        self.url = url
        self.commits: dict[str, dict[str, dict[str, bytes]]] = {}
        self.branches: dict[str, dict[str, str]] = {}
        self.uploads: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.sizes: dict[str, int] = {}

    def commit(self, repository: str, files: dict[str, bytes], branch: str = "main") -> str:
        """Adds a commit with these files; returns its name."""
        tree = sorted((name, _blob(content)) for name, content in files.items())
        before = self.branches.setdefault(repository, {}).get(branch)
        name = hashlib.sha1(repr((repository, before, tree)).encode()).hexdigest()
        self.commits.setdefault(repository, {})[name] = files
        self.branches[repository][branch] = name
        return name

    def find(self, repository: str, revision: str) -> str | None:
        """The commit of a revision; None if there is none."""
        branches = self.branches.get(repository, {})
        found = branches.get(revision, revision)
        return found if found in self.commits.get(repository, {}) else None


def _is_lfs(name: str, size: int) -> bool:
    return name.endswith(".safetensors") or size > LFS


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_) -> None:
        """Nothing on standard error."""

    def _handle(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self._chunks()
        self.hub.requests.append((self.command, path))
        writes = self.command in ("POST", "PUT") and not path.startswith("/lfs/")
        if writes and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._answer(401, {"error": "Invalid username or password."})
        steps = path.strip("/").split("/")
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path == "/api/validate-yaml":
            return self._answer(200, {"errors": [], "warnings": []})
        if steps[0] == "lfs":
            return self._lfs(steps[1], body)
        if path.endswith(".git/info/lfs/objects/batch"):
            return self._batch(json.loads(body))
        if steps[:2] == ["api", "models"]:
            what, *revision = steps[4:] or ["revision", "main"]
            return self._api("/".join(steps[2:4]), what, "/".join(revision), body)
        if steps[2:3] != ["resolve"]:
            return self._answer(404, {"error": "Not found"})
        return self._resolve("/".join(steps[:2]), steps[3], "/".join(steps[4:]))

    do_GET = do_HEAD = do_POST = do_PUT = _handle  # noqa: N815

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _create(self, request: dict) -> None:
        name = f"{request.get('organization') or 'me'}/{request['name']}"
        status = 409 if name in self.hub.branches else 200
        self.hub.branches.setdefault(name, {})
        if status == 200:
            self.hub.commit(name, {".gitattributes": b"*.safetensors filter=lfs\n"})
        self._answer(status, {"url": f"{self.hub.url}/{name}", "id": name, "name": name})

    def _batch(self, request: dict) -> None:
        actions = lambda oid: {"upload": {"href": f"{self.hub.url}/lfs/{oid}"}}
        objects = [o | {"actions": actions(o["oid"])} for o in request["objects"]]
        self._answer(200, {"transfer": "basic", "objects": objects})

    def _lfs(self, oid: str, body: bytes) -> None:
        if self.command == "PUT":
            assert hashlib.sha256(body).hexdigest() == oid
            self.hub.uploads[oid] = body
            return self._answer(200, {})
        return self._send(200, {}, self.hub.uploads[oid])

    def _api(self, name: str, what: str, revision: str, body: bytes) -> None:
        if name not in self.hub.branches:
            code = {"X-Error-Code": "RepoNotFound"}
            return self._answer(404, {"error": "Repository not found"}, code)
        commit = self.hub.find(name, revision)
        if commit is None:
            code = {"X-Error-Code": "RevisionNotFound"}
            return self._answer(404, {"error": f"Invalid rev id: {revision}"}, code)
        files = self.hub.commits[name][commit]
        if what == "revision":
            siblings = [
                {"rfilename": path, "size": self.hub.sizes.get(path, len(content))}
                for path, content in files.items()
            ]
            return self._answer(200, {"id": name, "sha": commit, "siblings": siblings})
        if what == "tree":
            return self._answer(200, [self._listed(*item) for item in files.items()])
        if what == "preupload":
            return self._answer(200, {"files": [_mode(f) for f in json.loads(body)["files"]]})
        new = self._applied(dict(files), [json.loads(line) for line in body.splitlines()])
        oid = self.hub.commit(name, new, revision)
        url = f"{self.hub.url}/{name}/commit/{oid}"
        return self._answer(200, {"success": True, "commitOid": oid, "commitUrl": url})

    def _applied(self, files: dict[str, bytes], operations: list[dict]) -> dict[str, bytes]:
        for operation in operations:
            kind, value = operation["key"], operation["value"]
            if kind == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif kind == "lfsFile":
                files[value["path"]] = self.hub.uploads[value["oid"]]
            elif kind == "deletedFile":
                del files[value["path"]]
        return files

    def _listed(self, path: str, content: bytes) -> dict:
        entry = {"type": "file", "path": path, "size": len(content), "oid": _blob(content)}
        if _is_lfs(path, len(content)):
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
        return entry

    def _resolve(self, name: str, revision: str, path: str) -> None:
        commit = self.hub.find(name, revision)
        content = self.hub.commits[name][commit][path] if commit else b""
        headers = {"X-Repo-Commit": commit, "ETag": f'"{_blob(content)}"'}
        if not _is_lfs(path, len(content)):
            return self._send(200, headers, content)
        oid = hashlib.sha256(content).hexdigest()
        self.hub.uploads.setdefault(oid, content)
        headers |= {"X-Linked-Size": str(len(content)), "X-Linked-Etag": f'"{oid}"'}
        store = self.hub.url.replace("127.0.0.1", "localhost")  # another host, as the hub's
        return self._send(302, headers | {"Location": f"{store}/lfs/{oid}"}, b"")

    def _answer(self, status: int, value: object, headers: dict | None = None) -> None:
        kind = {"Content-Type": "application/json"}
        self._send(status, kind | (headers or {}), json.dumps(value).encode())

    def _send(self, status: int, headers: dict, content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _mode(file: dict) -> dict:
    mode = "lfs" if _is_lfs(file["path"], file["size"]) else "regular"
    return {"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": None}


@contextlib.contextmanager
def running() -> Iterator[Hub]:
    """A hub on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.RequestHandlerClass.hub = hub = Hub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
