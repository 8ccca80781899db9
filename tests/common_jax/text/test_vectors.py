"""Word vectors: the row of each word against brute force, and errors in files."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.bad_examples import BadExamples
from common_jax.text.vectors import read_vectors
from tests.common_jax.data.other_tools import COMPRESSIONS, archive
from tests.refusals import refusal

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


def write(folder: Path, text: str | bytes, name: str = "a.txt") -> Path:
    data = text.encode() if isinstance(text, str) else text
    path = folder / name
    path.write_bytes(COMPRESSIONS.get(path.suffix, bytes)(data))
    return path


def rows_of(path, words, dim=3, policy="error"):
    vectors = read_vectors(path, words, dim, BadExamples(policy))
    return {word: vectors.table[row].tolist() for word, row in vectors.rows.items()}


def fails(path: Path, words=("dog",), dim: int = 3) -> str:
    """The message without the folder."""
    line = refusal(read_vectors, path, words, dim, BadExamples("error"))
    return line.replace(f"{path.parent}/", "")


@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.zip"])
@pytest.mark.parametrize("header", ["", "10 3\n"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_rows(tmp_path, name, header, end):
    path = write(tmp_path, header + FILE.replace("\n", end), name)
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


PLAIN = "the 1 2 3\na b 4 5 6\n\u00a0c\u0085d\u2028 7 8 9\ne\rf 1 1 1\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" ", " "),  # as it is
        ("\nthe", "\n the"),
        ("\na", "\n\ta"),
        ("the 1", "the  1"),
        ("the 1", "the\t1"),
        ("the 1", "the \t 1"),
        ("a b 4 5 6", "a b\t4\t5\t6 "),
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
    path = write(tmp_path, text)
    rows = [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 1]]
    assert rows_of(path, words) == dict(zip(words, rows, strict=True))
    assert "set it to 3" in fails(path, words, 4)


_FORMS = st.sampled_from(["a", "A", "ab", "Ab", "AB", "aB", "ß", "SS", "Ss", "ß."])


@given(st.lists(_FORMS), st.lists(_FORMS, min_size=1))
def test_the_first_form_that_the_file_has(tmp_path_factory, words, in_file):
    text = "".join(f"{word} {n} {n}\n" for n, word in enumerate(in_file))
    path = write(tmp_path_factory.mktemp("vectors"), text)
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


@pytest.mark.parametrize(
    ("row", "numbers", "end"),
    [
        ("cat 1 2", 2, "\n"),
        ("cat 1 2 x 3 4", 2, "\n"),
        ("cat 1 2 3 4", 4, "\n"),
        ("cat", 0, "\n"),
        ("", 0, "\n"),
        ("cat 1 2", 2, "\r"),  # which ends lines where no line feed does
    ],
)
def test_a_row_of_another_length_is_rejected_for_any_word(tmp_path, row, numbers, end):
    path = write(tmp_path, f"the 1 2 3{end}{row}\ndog 1 2 3\n")
    bad_examples = BadExamples("skip")
    wrong = f"{numbers} numbers after a word, not 3"
    assert fails(path).startswith(f"a.txt:2: {wrong}; ")
    assert read_vectors(path, ["dog"], 3, bad_examples).table.tolist() == [[1, 2, 3]]
    assert bad_examples.counts == {wrong: {"count": 1, "first": [f"{path}:2"]}}


@pytest.mark.parametrize("field", ["abc", "nan", "-inf", "1e39", "0,5", "½"])
def test_the_row_of_a_word_has_numbers(tmp_path, field):
    path = write(tmp_path, f"the 1 2 3\ncat 1 {field} 3\n")
    assert fails(path, ["CAT"]).startswith(f"a.txt:2: {field!r} is not a number; ")
    assert rows_of(path, ["the"]) == {"the": [1, 2, 3]}
    vectors = read_vectors(path, ["cat", "the"], 3, BadExamples("skip"))
    assert vectors.rows == {"the": 0} and vectors.matched["missing"] == 1
    assert vectors.faulty == 1


def test_words_without_a_vector_by_a_fault_of_the_file_are_counted(tmp_path):
    path = write(tmp_path, "the 1 2 3\ncat 1 x 3\nDog 1 2\nowl 1 2\nowl 4 5 6\n")
    vectors = read_vectors(path, ["the", "Cat", "dog", "owl", "fox"], 3, BadExamples("skip"))
    assert vectors.rows == {"the": 0, "owl": 1}
    assert (vectors.matched["missing"], vectors.faulty) == (3, 2)  # fox is not in the file


LONG = b"the 1 2 3\n" * 1000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"the 1 2", "words.dim=3: a.txt:1 has vectors of 2; set it to 2"),
        ("a.txt", b"5 2\nthe 1 2", "words.dim=3: a.txt:1 has vectors of 2; set it to 2"),
        ("a.txt", None, "a.txt: No such file or directory"),
        ("a.txt", b"", "a.txt: no vectors in it"),
        ("a.txt", b"7 3\n", "a.txt: no vectors in it"),
        pytest.param("a.gz", LONG, "the gzip data is damaged or cut off", id="a cut gzip file"),
        pytest.param("a.zip", LONG, "the zip data is damaged or cut off", id="a cut zip file"),
    ],
)
def test_files_of_another_dimension_or_that_cannot_be_read(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        write(tmp_path, content, name)
    if content is LONG:
        path.write_bytes(path.read_bytes()[:-12])
    assert message in fails(path, ["the"])


def test_a_zip_may_have_other_files_beside_the_vectors(tmp_path):
    """As GloVe's."""
    path = tmp_path / "a.zip"
    path.write_bytes(archive({"README": b"the 4 5 6\n", "a.txt": b"the 1 2 3\n"}))
    assert rows_of(path, ["the"]) == {"the": [1, 2, 3]}
    path.write_bytes(archive({"a.txt": b"", "b.txt": b""}))
    assert fails(path) == "a.zip: 2 files in it ending in .txt; unpack it and name the one"


def test_a_word_in_another_encoding_is_missing(tmp_path):
    """As 840B has some."""
    path = write(tmp_path, "caf\xe9 1 2 3\nthe 1 2 3\n".encode("latin-1"))
    assert rows_of(path, ["the", "café"]) == {"the": [1, 2, 3]}
