"""Ids of words and characters, and their vectors."""

import json
import zlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common_jax.errors import UserError
from common_jax.text.vectors import Vectors
from common_jax.text.vocabulary import UNKNOWN, Vocabulary
from tests.refusals import refusal

COUNTS = Counter({"cat": 5, "Dog": 3, "ant": 3, "bee": 3, "BAT": 1})
TABLE = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
# "Cat" and "cat" share a row, as two cased forms of one word in the file.
VECTORS = Vectors({"cat": 0, "Cat": 0, "dog": 1, "USA": 2}, TABLE, {})


def test_the_most_frequent_words_have_numbers():
    """Padding is 0, unknown words are 1; equally frequent words are in code order."""
    vocabulary = Vocabulary.make(COUNTS, 5, 100)
    assert vocabulary.table is None
    assert vocabulary.word_ids(["cat", "Dog", "ant", "bee", "BAT", ""]) == [2, 3, 4, 1, 1, 1]
    backwards = Counter(dict(reversed(COUNTS.items())))
    assert Vocabulary.make(backwards, 5, 100).compatible_with(vocabulary)
    for few in (0, 1, 2):
        assert Vocabulary.make(COUNTS, few, few).word_ids(["cat"]) == [UNKNOWN]


def test_the_most_frequent_characters_have_numbers():
    """A character counts once for each occurrence in each word."""
    counts = Counter({"aab": 2, "bc": 3, "d": 1})  # b 5, a 4, c 3, d 1
    vocabulary = Vocabulary.make(counts, 10, 5)
    rows = vocabulary.char_ids(["abc", "d", "", "cabbage"], 4)
    assert rows.dtype == np.int32
    assert rows.tolist() == [[3, 2, 4, 0], [1, 0, 0, 0], [0, 0, 0, 0], [4, 3, 2, 2]]
    assert vocabulary.char_ids([], 4).shape == (0, 4)
    counts = Counter({"北京": 2, "京": 1, "a": 1})  # 京 3, 北 2, a 1
    assert Vocabulary.make(counts, 9, 4).char_coverage(counts) == (5 / 6, 5)
    assert Vocabulary.make(counts, 9, 5).char_coverage(counts) == (1, 5)


def test_unknown_words_share_numbers_by_their_hash(tmp_path):
    saved = Vocabulary.make(COUNTS, 2 + 2 + 7, 0, 7)  # two words, then seven numbers
    saved.save(tmp_path)
    names = [f"name{n}" for n in range(100)]
    for vocabulary in (saved, Vocabulary.load(tmp_path)):
        assert vocabulary.word_ids(["cat", "Dog"]) == [2, 3]
        assert set(vocabulary.word_ids(names)) == set(range(4, 11))
        assert [zlib.crc32(name.encode()) % 7 + 4 for name in names] == vocabulary.word_ids(names)
        assert "CAT" in vocabulary
        assert "ant" not in vocabulary  # which had a number, were there room
    assert not saved.compatible_with(Vocabulary.make(COUNTS, 2 + 2 + 6, 0, 6))
    other = Vocabulary.make(Counter(["cat", "emu", "gnu"]), 2 + 3 + 7, 0, 7)
    ids = np.array(other.word_ids(["cat", "emu", *names]))
    assert saved.ids_from(other)[ids].tolist() == saved.word_ids(["cat", "emu", *names])


def test_the_rule_of_words_is_stored_unless_it_is_that_of_earlier_versions(tmp_path):
    earlier, current = (Vocabulary.make(COUNTS, 9, 9, rule=rule) for rule in ("english", "unicode"))
    assert not earlier.compatible_with(current)
    file = tmp_path / "lexicon.json"
    for vocabulary in (earlier, current):
        vocabulary.save(tmp_path)
        assert ("rule" in json.loads(file.read_text())) is (vocabulary is current)
        assert Vocabulary.load(tmp_path).compatible_with(vocabulary)
    file.write_text(file.read_text().replace("unicode", "latin"))
    with pytest.raises(UserError, match=r"not a complete vocabulary .* unknown rule, latin"):
        Vocabulary.load(tmp_path)
    fixed = Vocabulary.make(COUNTS, Vectors({}, TABLE[:0], {}), 9, rule="unicode")
    assert fixed.extended(VECTORS).rule == "unicode"


def test_fixed_vectors():
    vocabulary = Vocabulary.make(COUNTS, VECTORS, 100)
    for _ in range(2):  # the second time it remembers
        numbers = vocabulary.word_ids(["cat", "CAT", "Dog", "usa", "bee"])
        assert numbers == [2, 2, 3, 4, UNKNOWN]
    vectors = vocabulary.vectors(np.array([[0, *numbers]]))
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[[0, 0], [1, 2], [1, 2], [3, 4], [5, 6], [0, 0]]]


@pytest.mark.parametrize("rows", [0, 3])
def test_more_words_with_vectors(rows):
    base = Vocabulary.make(COUNTS, Vectors({"cat": 1} if rows else {}, TABLE[:rows], {}), 100)
    more = base.extended(Vectors({"cat": 0, "Emu": 2, "emu": 2}, -TABLE, {}))
    vectors = more.vectors(np.array(more.word_ids(["cat", "EMU", "Emu", "emu", "gnu"])))
    cat = TABLE[1] if rows else -TABLE[0]
    assert vectors.tolist() == [cat.tolist(), *[(-TABLE[2]).tolist()] * 3, [0, 0]]
    assert more.char_ids(["cat"], 3).tolist() == base.char_ids(["cat"], 3).tolist()
    assert base.compatible_with(more) and base.word_ids(["emu"]) == [UNKNOWN]
    vectors = base.vectors(np.array([UNKNOWN]))
    assert vectors.dtype == np.float32 and vectors.tolist() == [[0, 0]]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)


@given(counts=st.dictionaries(TEXT, st.integers(1, 3)), fixed=st.booleans())
def test_what_is_saved_is_what_is_loaded(tmp_path_factory, counts, fixed):
    folder = tmp_path_factory.mktemp("vocabulary")
    rows = {word: n // 2 for n, word in enumerate(counts)}
    table = np.random.default_rng(0).standard_normal((-(-len(rows) // 2), 3)).astype(np.float32)
    words = Vectors(rows, table, {}) if fixed else 2 + len(counts) // 2
    saved = Vocabulary.make(Counter(counts), words, 6)
    saved.save(folder)
    loaded = Vocabulary.load(folder)
    assert loaded.compatible_with(saved)
    assert loaded.word_ids(counts) == saved.word_ids(counts)
    assert (loaded.char_ids([*counts], 3) == saved.char_ids([*counts], 3)).all()
    if fixed:
        numbers = np.arange(len(table) + 2)
        np.testing.assert_array_equal(loaded.vectors(numbers), saved.vectors(numbers))


MORE = np.concatenate([TABLE[1:], TABLE[:1], TABLE])  # the same vectors in other rows
FIXED, TRAINED = Vocabulary({"a": 2, "b": 3}, "xy", TABLE), Vocabulary({"a": 2, "b": 3}, "xy")


@pytest.mark.parametrize(
    ("one", "other", "compatible"),
    [
        # With fixed vectors, the same words need the same vectors, not the same ids.
        (FIXED, FIXED, True),
        (FIXED, Vocabulary({"b": 2, "a": 4, "c": 5}, ["x", "y"], MORE), True),
        (FIXED, Vocabulary({"c": 2}, "xy", TABLE), True),
        (FIXED, Vocabulary({"a": 3, "b": 2}, "xy", TABLE), False),
        (FIXED, Vocabulary({"a": 2, "b": 3}, "yx", TABLE), False),
        (FIXED, Vocabulary({"a": 2, "b": 3}, "xy", TABLE + 1), False),
        (FIXED, Vocabulary({"a": 2, "b": 3}, "xy", TABLE[:, :1]), False),
        (FIXED, TRAINED, False),
        (TRAINED, Vocabulary({"a": 2, "b": 3}, "xy"), True),
        (TRAINED, Vocabulary({"a": 2}, "xy"), False),
        (TRAINED, Vocabulary({"a": 2, "b": 3, "c": 4}, "xy"), False),
        (TRAINED, Vocabulary({"a": 3, "b": 2}, "xy"), False),
    ],
)
def test_compatible_vocabularies(one, other, compatible):
    assert one.compatible_with(other) is other.compatible_with(one) is compatible


def test_a_vocabulary_that_is_missing_or_broken(tmp_path):
    def refused():
        line = refusal(Vocabulary.load, tmp_path)
        assert line.startswith(f"{tmp_path}: not a complete vocabulary (")

    refused()
    Vocabulary({"a": 2}, "xy", TABLE).save(tmp_path)
    lexicon, vectors = (tmp_path / name for name in ("lexicon.json", "vectors.npy"))
    intact = {file: file.read_bytes() for file in (lexicon, vectors)}
    others = b"", b"\xff", b"[1]", b'{"words": ["a"], "characters": []}', b'{"words": {}}'
    broken = {
        lexicon: [intact[lexicon][:-5], *others],
        vectors: [intact[vectors][:-1], intact[vectors][:20], b"", b"no array"],
    }
    for file, contents in broken.items():
        for content in contents:
            file.write_bytes(content)
            refused()
        file.write_bytes(intact[file])
    assert Vocabulary.load(tmp_path).word_ids(["a"]) == [2]
