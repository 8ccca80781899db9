"""Lines of text files, names of files, and one-line errors for files that are not text."""

import gzip
import os
import re
import zipfile
from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.io.files import find_file, names_in, read_lines
from common_jax.io.paths import as_path, in_bucket
from tests.common_jax.data.other_tools import archive
from tests.refusals import refusal

TEXT = "one\r\ntwo\u2028still two\x0b\x85\x1c\x0c\n\n\r\nfünf 日本😀\nlast without end"
LINES = ["one", "two\u2028still two\x0b\x85\x1c\x0c", "", "", "fünf 日本😀", "last without end"]
LONG = "".join(f"{n * 7919} some line\n" for n in range(20_000))


def locked(data):
    """A zip file that says it is encrypted."""
    changed = bytearray(data)
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        changed[changed.index(header) + flags] |= 1
    return bytes(changed)


FOLDER = {"folder/": b"", "folder/a.txt": TEXT.encode(), "__MACOSX/._a.txt": b""}
READ = {
    "plain text": ("a.txt", TEXT.encode(), LINES),
    "text with a byte order mark": ("a.txt", b"\xef\xbb\xbf" + TEXT.encode(), LINES),
    "gzip": ("a.txt.gz", gzip.compress(TEXT.encode()), LINES),
    "gzip with a byte order mark": ("a.gz", gzip.compress(b"\xef\xbb\xbf" + TEXT.encode()), LINES),
    "gzip without a suffix": ("a", gzip.compress(TEXT.encode()), LINES),
    "two gzip members": ("a", gzip.compress(b"a\nb") + gzip.compress(b"c\n"), ["a", "bc"]),
    "an empty file": ("a", b"", []),
    "zip": ("a.zip", archive(FOLDER), LINES),
    "zip without a suffix": ("a", archive(FOLDER, zipfile.ZIP_STORED), LINES),
    "a long text in zip": ("a.zip", archive({"b.txt": LONG}), LONG.splitlines()),
    "zip of another name": ("a.zip", archive({"a.csv": b"x"}), ["x"]),
}


@pytest.mark.parametrize("what", READ)
def test_lines(tmp_path, what):
    name, data, expected = READ[what]
    (tmp_path / name).write_bytes(data)
    assert list(read_lines(tmp_path / name)) == expected


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


def damages(data):
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0xFF
    return [data[:-9], data[:200], data[:5], bytes(flipped), b"plain\n", b""]


GZIP = gzip.compress(LONG.encode(), mtime=0)
ZIP = archive({"a.txt": LONG})
REFUSED = [
    ("a", b"ok\nf\xfcnf\n", r"a:2: not UTF-8 \(byte 0xfc after 1 bytes\)"),
    ("a.zip", archive({"a/": b""}), "a.zip: no file in it"),
    (
        "a.zip",
        archive({"a.tsv": b"x", "README.txt": b"y"}),
        r"a.zip: 2 files in it \(a.tsv, README.txt\); unpack it and name the one",
    ),
    (
        "a.zip",
        locked(archive({"a.txt": b"secret"})),
        r"a.zip: a\.txt in it .*password",
    ),
    *(("a.gz", d, "a.gz:.* gzip data is damaged or cut off") for d in damages(GZIP)),
    *(("a.zip", d, "a.zip:.* zip data is damaged or cut off") for d in damages(ZIP)),
]


def test_errors_name_the_place(tmp_path):
    for name, data, message in REFUSED:
        path = tmp_path / name
        path.write_bytes(data)
        assert re.match(message, refusal(list, read_lines(path)).replace(f"{tmp_path}/", ""))
    with pytest.raises(UserError, match="none: No such file"):
        list(read_lines(tmp_path / "none"))
    with pytest.raises(UserError, match="Is a directory"):
        list(read_lines(tmp_path))


def test_a_pipe_whose_beginning_would_be_lost_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    message = f"{tmp_path}/pipe: a pipe, which can be read once only; write it to a file"
    assert refusal(lambda: [*read_lines(tmp_path / "pipe")]) == message


def test_names_with_commas(tmp_path):
    for name in ("a,b.csv.gz", "c,d.en", "e"):
        (tmp_path / name).touch()
    names = lambda value: names_in(value, "data.train", tmp_path)
    assert names("a,b.csv") == ["a,b.csv"] and names("c,d") == ["c,d"]
    assert names("e, f") == ["e", "f"] and names('"a,b.csv",e') == ["a,b.csv", "e"]
    for value, message in (("a,", "name its files"), ('"a,b', "data.train=.*quotation marks")):
        with pytest.raises(UserError, match=message):
            names(value)


def test_a_file_is_found_with_and_without_its_suffix(tmp_path):
    with pytest.raises(UserError, match=r"a\.en: no such file, nor with \.gz"):
        find_file(tmp_path / "a.en")
    (tmp_path / "a.en.gz").touch()
    for name in ("a.en", "a.en.gz"):
        assert find_file(tmp_path / name) == tmp_path / "a.en.gz"
    (tmp_path / "a.en").touch()
    assert find_file(tmp_path / "a.en") == tmp_path / "a.en"
    (tmp_path / "b").mkdir()
    with pytest.raises(UserError, match="a folder"):
        find_file(tmp_path / "b")


@pytest.mark.parametrize("text", ["runs/a", "/runs/a:b/c", "~/x", "a:/b", ".", "gs"])
def test_a_path_on_a_disk(text):
    path = as_path(text)
    assert path == Path(text) == as_path(path) and not in_bucket(path)


def test_a_path_in_a_bucket_keeps_its_url():
    path = as_path("gs://bucket/runs/a/")
    assert str(path) == "gs://bucket/runs/a" and in_bucket(path)
    assert as_path(path) == path
    child = path / "b" / "c.json"
    assert str(child) == "gs://bucket/runs/a/b/c.json"
    assert str(child.parent.with_name("d")) == "gs://bucket/runs/a/d"
    assert (child.name, child.suffix) == ("c.json", ".json")
    assert child.relative_to(path).as_posix() == "b/c.json"
    for same in (path.absolute(), path.resolve(), path.expanduser()):
        assert str(same) == str(path)


@pytest.mark.parametrize(
    "message,texts",
    {
        "of URLs, only gs:// is": (
            *("s3://bucket/a", "az://bucket/a", "hf://bucket/a", "S3://bucket/a", "s3:/bucket/a"),
            "https://storage.googleapis.com/bucket/a",
        ),
        "write the path alone": ("file:///runs/a",),
        "write gs://BUCKET/FOLDER": ("gs:/bucket/a", "gs://", "GS://bucket/a", "gs://Bucket/a"),
    }.items(),
)
def test_other_urls_are_refused(message, texts):
    for text in texts:
        with pytest.raises(UserError, match=f"^{text}: {message}"):
            as_path(text)
