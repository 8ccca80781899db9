"""Archives of exports at https://, on a server of this machine with a certificate of its own."""

import hashlib
import http.server
import io
import ssl
import subprocess
import tarfile
import threading
import urllib.request
import zipfile

import pytest

from common_jax.deploy import archives
from common_jax.deploy.named import located, short_name
from common_jax.errors import UserError
from tests.common_jax.io.test_files import zipped

FILES = {"model/export.json": b"{}", "model/vocabulary/words.txt": b"a\n"}


def tarred(files, mode="w:gz", **fields):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a server, and its contents by path; a text is the target of a redirection."""
    folder, contents = tmp_path_factory.mktemp("tls"), {}
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout"
    options = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*command.split(), key, "-out", certificate, *options], check=True, capture_output=True
    )

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            """Nothing on standard error."""

        def do_GET(self):
            content = contents.get(self.path)
            if isinstance(content, str):
                self.send_response(302)
                self.send_header("Location", content)
                return self.end_headers()
            self.send_response(404 if content is None else 200)
            self.end_headers()
            self.wfile.write(content or b"")

    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    service.socket = context.wrap_socket(service.socket, server_side=True)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", certificate)
        yield f"https://127.0.0.1:{service.server_port}", contents
    service.shutdown()
    service.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files_in(folder):
    return {
        f"{folder.name}/{path.relative_to(folder)}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "name,content",
    [
        ("m.zip", zipped(FILES)),
        ("m.tar.gz", tarred(FILES)),
        ("m.tar?download=1", tarred(FILES, "w")),
    ],
)
def test_an_archive_is_unpacked_once(name, content, server, monkeypatch):
    address, contents = server
    contents[f"/{name}"] = content
    url = f"{address}/{name}#sha256={hashlib.sha256(content).hexdigest()}"
    assert files_in(located(url)) == FILES
    contents.clear()  # and without network:
    monkeypatch.setattr(urllib.request, "build_opener", lambda *_: pytest.fail("a request"))
    assert files_in(located(url)) == FILES


def test_a_redirection_is_followed_to_https_only(server):
    address, contents = server
    contents |= {"/to.zip": f"{address}/m.zip", "/m.zip": zipped(FILES)}
    assert files_in(located(f"{address}/to.zip")) == FILES
    contents["/plain.zip"] = "http://127.0.0.1/m.zip"
    with pytest.raises(UserError, match="cannot be read: a redirection to an address without"):
        located(f"{address}/plain.zip")


def large_header():
    """A tar archive of which a header declares, and has, 64 MiB."""
    return tarred({"model/export.json": b"{}"}, pax_headers={"comment": "x" * 2**26})


def damaged(archive):
    """A zip with a changed byte of a compressed file."""
    return archive[:45] + bytes([archive[45] ^ 255]) + archive[46:]


def many_folders():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        for number in range(10_001):
            folder = tarfile.TarInfo(f"d{number}")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
    return file.getvalue()


BAD = {
    "not there": ("x.zip", None, "not in the cache, and cannot be read: .*(404|Not Found)"),
    "no archive": ("x.zip", b"<html>", "not an archive that can be unpacked"),
    "a cut one": ("x.tar.gz", tarred(FILES)[:90], "not an archive that can be unpacked"),
    "another digest": ("x.zip#sha256=" + "0" * 64, zipped(FILES), "the archive has the SHA-256 "),
    "no digest": ("x.zip#sha256=12", zipped(FILES), "write #sha256= and 64 digits of 0-9a-f"),
    "a page": ("x.html", b"", r"not the address of an archive \(\.zip, "),
    "a path above": ("x.zip", zipped({"../x": b"x"}), "'../x': not a file below its folder"),
    "an absolute path": ("x.tar.gz", tarred({"/x": b"x"}), "'/x': not a file below its folder"),
    "a link": (
        "x.tar.gz",
        tarred({"x": b""}, type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        "'x' is not a file",
    ),
    "a damaged file": ("x.zip", damaged(zipped(FILES)), "not an archive that can be unpacked"),
    "ten thousand folders": ("x.tar.gz", many_folders(), "more than 10,000 files and folders"),
    "a file twice": ("x.zip", None, "not an archive that can be unpacked .*File exists"),
    "a large header": ("x.tar.gz", large_header(), "a header of more than 1 MiB"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_bad_archive_is_one_line_and_leaves_nothing(what, server, cache):
    (address, contents), (name, content, words) = server, BAD[what]
    contents.clear()
    if what == "a file twice":
        twice = io.BytesIO()
        with zipfile.ZipFile(twice, "w") as archive:
            archive.writestr("x", "1")
            archive.writestr("x", "2")
        content = twice.getvalue()
    if content is not None:
        contents["/" + name.partition("#")[0]] = content
    with pytest.raises(UserError, match=words) as error:
        located(f"{address}/{name}")
    assert "\n" not in str(error.value) and not [*cache.glob("*")]


def test_a_bomb_is_refused_before_it_is_unpacked(server, cache, monkeypatch):
    address, contents = server
    monkeypatch.setattr(archives, "LARGEST", 2**20)
    for name, content in (("b.zip", zipped), ("b.tar.gz", tarred)):
        contents[f"/{name}"] = content({"x": bytes(2**24)})
        assert len(contents[f"/{name}"]) < 2**17
        with pytest.raises(UserError, match="unpacks to more than 1,048,576 bytes"):
            located(f"{address}/{name}")
    contents["/long.zip"] = bytes(2**21)
    with pytest.raises(UserError, match=r"long\.zip: more than 1,048,576 bytes"):
        located(f"{address}/long.zip")
    assert not [*cache.glob("*")]


def test_an_unknown_certificate_is_one_line(server, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(UserError, match=r"cannot be read: .*CERTIFICATE_VERIFY_FAILED"):
        located(f"{server[0]}/m.zip")


@pytest.mark.parametrize(
    "path,name",
    [
        ("hf://ada/adder@v1.0", "adder"),
        ("https://example.org/a/adder.tar.gz#sha256=0", "adder"),
        ("https://example.org/adder-1.zip", "adder-1"),
        ("demo:csan", "csan"),
        ("exports/adder.v1", "adder.v1"),
    ],
)
def test_a_server_names_models_in_short(path, name):
    assert short_name(path) == name
