"""Lines of text files, and one-line errors for files that are not text."""

import gzip
import io
import zipfile

import pytest

from common_jax.errors import UserError
from common_jax.io.files import find_file, names_in, read_lines

TEXT = "one\r\ntwo\u2028still two\x0b\x85\x1c\x0c\n\n\r\nfünf 日本😀\nlast without end"
LINES = ["one", "two\u2028still two\x0b\x85\x1c\x0c", "", "", "fünf 日本😀", "last without end"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "gzip_without_suffix"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_lines(tmp_path, name, bom):
    data = bom + TEXT.encode()
    path = tmp_path / name
    path.write_bytes(data if name == "a.txt" else gzip.compress(data))
    assert list(read_lines(path)) == LINES


def test_carriage_returns_end_lines_in_a_file_without_line_feeds(tmp_path, caplog):
    caplog.set_level("INFO")
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfa\r\rb\xc2\x85\x0bc\r"))
    (tmp_path / "b").write_bytes(b"a\rb\r\r\n\rc\n")
    for _ in range(2):
        assert list(read_lines(tmp_path / "a.gz")) == ["a", "", "b\x85\x0bc"]
        assert list(read_lines(tmp_path / "b")) == ["a\rb\r", "\rc"]
    assert caplog.messages == [
        f"{tmp_path}/a.gz: no line feeds: carriage returns end its lines",
        f"{tmp_path}/b: carriage returns inside of 2 lines are white space",
    ]


def test_names_with_commas(tmp_path):
    for name in ("a,b.csv.gz", "c,d.en", "e"):
        (tmp_path / name).touch()
    names = lambda value: names_in(value, "data.train", tmp_path)
    assert names("a,b.csv") == ["a,b.csv"] and names("c,d") == ["c,d"]
    assert names("e, f") == ["e", "f"] and names('"a,b.csv",e') == ["a,b.csv", "e"]
    for value, message in (
        ("a,", "name its files"),
        ('"a,b', "data.train=.*quotation marks as in"),
    ):
        with pytest.raises(UserError, match=message):
            names(value)


def test_empty_file(tmp_path):
    (tmp_path / "a").touch()
    assert list(read_lines(tmp_path / "a")) == []


def test_two_gzip_members_are_one_text(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\nd\n"))
    assert list(read_lines(tmp_path / "a.gz")) == ["a", "bc", "d"]


def _fails(path) -> str:
    with pytest.raises(UserError) as error:
        list(read_lines(path))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_errors_name_the_place(tmp_path):
    assert f"{tmp_path}/none: No such file" in _fails(tmp_path / "none")
    assert "Is a directory" in _fails(tmp_path)
    (tmp_path / "latin").write_bytes("ok\nf\xfcnf\n".encode("latin-1"))
    assert f"{tmp_path}/latin:2: not UTF-8 (byte 0xfc after 1 bytes)" in _fails(tmp_path / "latin")
    (tmp_path / "wide").write_bytes("abc\n".encode("utf-16"))
    assert "wide:1: not UTF-8" in _fails(tmp_path / "wide")


def _zipped(files: dict[str, bytes], method=zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


@pytest.mark.parametrize(
    "name,method", [("a.zip", zipfile.ZIP_DEFLATED), ("zip_without_suffix", zipfile.ZIP_STORED)]
)
def test_zip(tmp_path, name, method):
    files = {"folder/": b"", "folder/a.txt": TEXT.encode(), "README": b"", "__MACOSX/._a.txt": b""}
    (tmp_path / name).write_bytes(_zipped(files, method))
    assert list(read_lines(tmp_path / name)) == LINES
    long = "".join(f"{n}\n" for n in range(200_000))
    (tmp_path / name).write_bytes(_zipped({"b.txt": long.encode()}, method))
    assert list(read_lines(tmp_path / name)) == long.splitlines()


def test_zip_without_one_text(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(_zipped({"a.csv": b"x"}))
    assert list(read_lines(path)) == ["x"]
    path.write_bytes(_zipped({"a/": b""}))
    assert _fails(path) == f"{path}: no file in it; unpack it and name the one"
    path.write_bytes(_zipped({"a.csv": b"x", "b.csv": b"y"}))
    assert _fails(path) == f"{path}: 2 files in it (a.csv, b.csv); unpack it and name the one"
    path.write_bytes(_zipped({"a.txt": b"x", "b.txt": b"y"}))
    assert f"{path}: 2 files in it ending in .txt" in _fails(path)


@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_a_damaged_archive(tmp_path, kind):
    lines = "".join(f"{n * 7919} some line\n" for n in range(5000)).encode()
    data = gzip.compress(lines, mtime=0) if kind == "gz" else _zipped({"a.txt": lines})
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    path = tmp_path / f"a.{kind}"
    for damaged in (data[:-9], data[:200], data[:5], bytes(flipped), b"plain\n", b""):
        path.write_bytes(damaged)
        message = _fails(path)
        name = {"gz": "gzip", "zip": "zip"}[kind]
        assert message.startswith(f"{path}:") and f" {name} data is damaged or cut off" in message


def test_zip_with_a_password(tmp_path):
    data = bytearray(_zipped({"a.txt": b"secret"}))
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(header) + flags] |= 1  # says that it is encrypted
    path = tmp_path / "a.zip"
    path.write_bytes(bytes(data))
    message = _fails(path)
    assert f"{path}: a.txt in it cannot be read" in message and "password" in message


def test_find_file(tmp_path):
    with pytest.raises(UserError, match=r"a\.en: no such file, nor with \.gz"):
        find_file(tmp_path / "a.en")
    (tmp_path / "a.en.gz").touch()
    assert find_file(tmp_path / "a.en") == tmp_path / "a.en.gz"
    assert find_file(tmp_path / "a.en.gz") == tmp_path / "a.en.gz"
    (tmp_path / "a.en").touch()
    assert find_file(tmp_path / "a.en") == tmp_path / "a.en"
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match="a folder"):
        find_file(tmp_path / "b")
