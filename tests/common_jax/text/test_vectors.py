"""Word vectors: the row of each word against brute force, and errors in files."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.bad_examples import BadExamples
from common_jax.errors import UserError
from common_jax.text.vectors import read_vectors
from tests.real import needs_real_data, real_data

SKIP = "; fix it, or set data.on_bad_example=skip"
FILE = """\
the 0.5 -1 2e-3
The 1 1 1
. . . 2 2 2
at name@domain.com 3 3 3
USA 4 4 4
Paris 5 5 5
the 9 9 9
ΣΟΦΟΣ 6 6 6
1\u00a01/2 7 7 7
\u2028x 8 8 8
"""


def _write(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    if path.suffix == ".gz":
        data = gzip.compress(data)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("vectors.txt", data)
    else:
        path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.zip"])
@pytest.mark.parametrize("header", ["", "10 3\n"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_rows(tmp_path, name, header, end):
    path = _write(tmp_path / name, header + FILE.replace("\n", end))
    words = ["the", "THE", "The", "usa", "PARIS", "paris", ". . .", "at name@domain.com", "none"]
    words += ["1\u00a01/2", "\u2028x", "\ud800", "at", "name@domain.com", "the", "σοφος"]
    vectors = read_vectors(path, words, 3, BadExamples("error"))
    expected = {
        "the": [0.5, -1, 2e-3],
        "THE": [0.5, -1, 2e-3],
        "The": [1, 1, 1],
        ". . .": [2, 2, 2],
        "at name@domain.com": [3, 3, 3],
        "usa": [4, 4, 4],
        "PARIS": [5, 5, 5],
        "paris": [5, 5, 5],
        "σοφος": [6, 6, 6],
        "1\u00a01/2": [7, 7, 7],
        "\u2028x": [8, 8, 8],
    }
    assert vectors.table.dtype == np.float32
    assert {w: vectors.table[row].tolist() for w, row in vectors.rows.items()} == {
        word: np.float32(row).tolist() for word, row in expected.items()
    }
    assert vectors.rows["the"] == vectors.rows["THE"] == 0  # in the file's order, none unused
    assert sorted(set(vectors.rows.values())) == list(range(len(vectors.table)))
    counts = {"exact": 6, "lower": 1, "capitalized": 2, "upper": 2, "missing": 4}
    assert vectors.matched == counts


def test_a_tab_after_the_word_or_between_numbers(tmp_path):
    path = _write(tmp_path / "a.vec", "2 3\nthe\t1 2 3\na b\t4\t5\t6 \n")
    vectors = read_vectors(path, ["the", "a b", "a"], 3, BadExamples("error"))
    found = {word: vectors.table[row].tolist() for word, row in vectors.rows.items()}
    assert found == {"the": [1, 2, 3], "a b": [4, 5, 6]}


PLAIN = "the 1 2 3\na b 4 5 6\n\u00a0c\u0085d\u2028 7 8 9\ne\rf 1 1 1\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" ", " "),  # as it is
        ("\nthe", "\n the"),
        ("\na", "\n\ta"),
        ("the 1", "the  1"),
        ("the 1", "the \t 1"),
        ("2 3", "2   3"),
        ("3\n", "3\r"),
        ("6\n", "6 \r"),
        ("\n", "\r"),
        ("\n", "\r\r\n"),
    ],
)
def test_blanks_and_returns_around_words_and_numbers(tmp_path, old, new):
    text = ("4 3\n" + PLAIN).replace(old, new)
    words = ["the", "a b", "\u00a0c\u0085d\u2028", "e\rf"]
    if "\n" not in text:  # each return ends a line
        text = text.replace("e\rf", "ef")
        words[-1] = "ef"
    path = _write(tmp_path / "a.txt", text)
    vectors = read_vectors(path, words, 3, BadExamples("error"))
    found = {word: vectors.table[row].tolist() for word, row in vectors.rows.items()}
    rows = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 1]]
    assert found == dict(zip(words, rows, strict=True))
    assert "set it to 3" in _fails(path, words, 4)


def test_the_line_of_a_row_after_returns(tmp_path):
    path = _write(tmp_path / "a.txt", "the 1 2 3\rcat 1 2\ndog 1 2 3\n")
    assert _fails(path, ["dog"]) == f"{path}:2: 2 numbers after a word, not 3{SKIP}"


_FORMS = st.sampled_from(["a", "A", "ab", "Ab", "AB", "aB", "ß", "SS", "Ss", "ß."])


@given(st.lists(_FORMS), st.lists(_FORMS, min_size=1))
def test_the_first_form_that_the_file_has(tmp_path_factory, words, in_file):
    text = "".join(f"{word} {n} {n}\n" for n, word in enumerate(in_file))
    path = _write(tmp_path_factory.mktemp("vectors") / "a.txt", text)
    vectors = read_vectors(path, words, 2, BadExamples("error"))
    for word in words:
        forms = [word, word.lower(), word.capitalize(), word.upper()]
        place = next((in_file.index(form) for form in forms if form in in_file), None)
        if place is None:
            assert word not in vectors.rows
        else:
            assert vectors.table[vectors.rows[word]].tolist() == [place, place]
    assert sum(vectors.matched.values()) == len(set(words))
    assert vectors.table.shape == (len(set(vectors.rows.values())), 2)


def _fails(path: Path, words: list[str], dim: int = 3) -> str:
    with pytest.raises(UserError) as error:
        read_vectors(path, words, dim, BadExamples("error"))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "row,numbers", [("cat 1 2", 2), ("cat 1 2 x 3 4", 2), ("cat 1 2 3 4", 4), ("cat", 0), ("", 0)]
)
def test_a_row_of_another_length_is_rejected_for_any_word(tmp_path, row, numbers):
    path = _write(tmp_path / "a.txt", f"the 1 2 3\n{row}\ndog 1 2 3\n")
    bad_examples, wrong = BadExamples("skip"), f"{numbers} numbers after a word, not 3"
    assert _fails(path, ["dog"]) == f"{path}:2: {wrong}{SKIP}"
    assert read_vectors(path, ["dog"], 3, bad_examples).table.tolist() == [[1, 2, 3]]
    assert bad_examples.counts == {wrong: {"count": 1, "first": [f"{path}:2"]}}


@pytest.mark.parametrize("field", ["abc", "nan", "-inf", "1e39", "0,5", "½"])
def test_the_row_of_a_word_has_numbers(tmp_path, field):
    path = _write(tmp_path / "a.txt", f"the 1 2 3\ncat 1 {field} 3\n")
    assert _fails(path, ["CAT"]) == f"{path}:2: {field!r} is not a number{SKIP}"
    assert len(read_vectors(path, ["the"], 3, BadExamples("error")).table) == 1
    vectors = read_vectors(path, ["cat", "the"], 3, BadExamples("skip"))
    assert vectors.rows == {"the": 0} and vectors.matched["missing"] == 1
    assert vectors.faulty == 1


def test_words_without_a_vector_by_a_fault_of_the_file_are_counted(tmp_path):
    path = _write(tmp_path / "a.txt", "the 1 2 3\ncat 1 x 3\nDog 1 2\nowl 1 2\nowl 4 5 6\n")
    vectors = read_vectors(path, ["the", "Cat", "dog", "owl", "fox"], 3, BadExamples("skip"))
    assert vectors.rows == {"the": 0, "owl": 1}
    assert (vectors.matched["missing"], vectors.faulty) == (3, 2)  # fox is not in the file


@pytest.mark.parametrize("first", ["the 1 2", "5 2\nthe 1 2"])
def test_another_dimension(tmp_path, first):
    path = _write(tmp_path / "a.txt", first)
    message = f"words.dim=3: {path}:1 has vectors of 2; set it to 2"
    assert _fails(path, ["the"]) == message


def test_files_that_cannot_be_read(tmp_path):
    assert _fails(tmp_path / "none.txt", []) == f"{tmp_path}/none.txt: No such file or directory"
    for text in ("", "7 3\n"):
        assert _fails(_write(tmp_path / "a.txt", text), []) == f"{tmp_path}/a.txt: no vectors in it"
    path = _write(tmp_path / "a.gz", "the 1 2 3\n" * 1000)
    path.write_bytes(path.read_bytes()[:-12])
    assert "the gzip data is damaged or cut off" in _fails(path, ["the"])
    path = _write(tmp_path / "a.zip", "the 1 2 3\n" * 1000)
    path.write_bytes(path.read_bytes()[:-12])
    assert "the zip data is damaged or cut off" in _fails(path, ["the"])
    latin = _write(tmp_path / "a.txt", "caf\xe9 1 2 3\nthe 1 2 3\n".encode("latin-1"))
    vectors = read_vectors(latin, ["the", "café"], 3, BadExamples("error"))  # as 840B has some
    assert vectors.matched["missing"] == 1


@needs_real_data
def test_glove():
    path = real_data("glove/glove.6B.50d.top9163.txt.gz")
    lines = gzip.decompress(path.read_bytes()).decode().rstrip("\n").split("\n")
    rows = {line.split(" ")[0]: line.split(" ")[1:] for line in lines}
    words = ["The", "PARIS", "cat", "dog", "king", "queen", ",", "Zyxwv"]
    vectors = read_vectors(path, words, 50, BadExamples("error"))
    for word in words[:-1]:
        row = vectors.table[vectors.rows[word]]
        np.testing.assert_array_equal(row, np.float32(rows[word.lower()]))
    assert vectors.matched == {"exact": 5, "lower": 2, "capitalized": 0, "upper": 0, "missing": 1}
    unit = vectors.table / np.linalg.norm(vectors.table, axis=1, keepdims=True)
    for one, other, cosine in (("cat", "dog", 0.92), ("king", "queen", 0.78)):
        computed = unit[vectors.rows[one]] @ unit[vectors.rows[other]]
        assert computed == pytest.approx(cosine, abs=5e-3)
    assert len(read_vectors(path, rows, 50, BadExamples("error")).table) == 9163
