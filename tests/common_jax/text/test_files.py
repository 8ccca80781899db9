"""Lines of files: what counts as a line, and one line of error for what is no text."""

import gzip
import subprocess

import pytest

from common_jax.errors import UserError
from common_jax.text.files import find_file, read_lines

TEXT = "one\r\ntwo\u2028still two\x0b\x85\x1c\x0c\n\n\r\nfünf 日本😀\nlast without end"
LINES = ["one", "two\u2028still two\x0b\x85\x1c\x0c", "", "", "fünf 日本😀", "last without end"]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "gzip_without_suffix"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_lines(tmp_path, name, bom):
    data = bom + TEXT.encode()
    path = tmp_path / name
    path.write_bytes(data if name == "a.txt" else gzip.compress(data))
    assert list(read_lines(path)) == LINES


def test_counts_as_wc(tmp_path):
    path = tmp_path / "a"
    path.write_bytes((TEXT + "\n").encode())
    counted = int(subprocess.check_output(["wc", "-l", path]).split()[0])
    assert len(list(read_lines(path))) == counted == len(LINES)


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


def test_damaged_gzip(tmp_path):
    lines = "".join(f"{n * 7919} some line\n" for n in range(5000)).encode()
    whole = gzip.compress(lines, mtime=0)
    path = tmp_path / "a.gz"
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for data in (whole[:-9], whole[:200], whole[:5], bytes(flipped), b"plain\n", b""):
        path.write_bytes(data)
        message = _fails(path)
        assert message.startswith(f"{path}:") and "gzip data is damaged or cut off" in message


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
