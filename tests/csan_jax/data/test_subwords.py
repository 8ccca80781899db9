"""Subwords: lossless encoding, deterministic training, errors with a possible size."""

import functools
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from common_jax.errors import UserError
from csan_jax.data.subwords import END, Subwords

ENGLISH = ["the", "small", "cat", "sees", "a", "big", "dog", "in"]
GERMAN = ["der", "kleine", "Hund", "sieht", "die", "große", "Katze", "im", "Garten"]
WORDS = ENGLISH + GERMAN
COUNTS = "ein", "zwei", "drei"
TEXT = [f"{a} {b} {c}{n}" for n, a in enumerate(WORDS) for b in WORDS for c in COUNTS]
SIZE = 350


@functools.cache
def trained() -> Subwords:
    return Subwords.train(TEXT, SIZE)


def test_symbols():
    subwords = trained()
    assert subwords.size == SIZE
    ids = subwords.encode(TEXT)
    assert min(map(min, ids)) > 2  # neither padding, end nor unknown
    assert max(map(max, ids)) < SIZE
    assert subwords.decode([[*ids[0], 1, 0, 0]]) == [TEXT[0]]
    assert subwords.encode([""]) == [[]] and subwords.decode([[]]) == [""]
    assert subwords.decode([[], ids[0], []]) == ["", TEXT[0], ""]
    assert subwords.encode([]) == [] and subwords.decode([]) == []


@settings(max_examples=200)
@given(text=st.text(st.characters(exclude_categories=["Cs"])))
@example("日本語と中文、한국어 😀🏳️‍🌈 e\u0301")
@example("</s> <pad> <unk> <0x41> <s>")
@example("½ … ﬁ Ａ a\tb\u2028c\u00a0d\x00e")
def test_any_text_comes_back_but_for_blanks(text):
    text = text.replace("▁", "_")  # SentencePiece's own sign for a blank
    blanks = re.sub(" +", " ", text).strip(" ")
    ids = trained().encode([text])
    assert 2 not in ids[0] and trained().decode(ids) == [blanks]


@settings(max_examples=100)
@given(ids=st.lists(st.integers(0, SIZE - 1)))
def test_what_any_ids_decode_to_comes_back(ids):
    """Also ids that no text has: padding, end, bytes that form no character."""
    (text,) = trained().decode([ids])
    blanks = re.sub(" +", " ", text).strip(" ")
    assert trained().decode(trained().encode([text])) == [blanks]


def test_deterministic_and_quiet(capfd, tmp_path):
    subwords = trained()
    capfd.readouterr()
    again = Subwords.train(iter(TEXT), SIZE)
    assert capfd.readouterr() == ("", "")
    again.save(tmp_path / "a")
    loaded = Subwords.load(tmp_path / "a")
    assert again == subwords == loaded and hash(loaded) == hash(subwords)
    assert loaded.encode(TEXT) == subwords.encode(TEXT)
    assert Subwords.train(TEXT[: len(TEXT) // 2], SIZE) != subwords


@pytest.mark.parametrize("size", [50_000, 100])
def test_wrong_size_names_one_that_does(size):
    with pytest.raises(UserError, match=rf"data\.vocab_size={size}: ") as error:
        Subwords.train(TEXT, size)
    would_do = int(re.findall(r"\d+", str(error.value).partition(": ")[2])[0])
    assert Subwords.train(TEXT, would_do).size == would_do
    off_by_one = would_do + (1 if size > would_do else -1)
    with pytest.raises(UserError):
        Subwords.train(TEXT, off_by_one)


def test_no_text():
    for text in ([], ["", " "]):
        with pytest.raises(UserError, match="no text"):
            Subwords.train(text, 300)


def test_load_errors(tmp_path):
    trained().save(tmp_path / "whole")
    twice = re.sub(b"<pad>|<unk>", b"\xff" * 5, (tmp_path / "whole").read_bytes())
    with pytest.raises(UserError, match="No such file"):
        Subwords.load(tmp_path / "none")
    for broken in (b"", b"not a model", twice):
        (tmp_path / "broken").write_bytes(broken)
        with pytest.raises(UserError, match="broken: not a SentencePiece model"):
            Subwords.load(tmp_path / "broken")


def test_flat_rows_are_the_ids_and_end_symbols():
    sentences = [*TEXT[:50], "", "½ … ﬁ"]
    rows = [[*ids, END] for ids in trained().encode(sentences)]
    for workers in (1, 3):
        flat = trained().encode_flat(sentences, workers)
        assert flat.tokens.tolist() == [piece for row in rows for piece in row]
        assert flat.lengths.tolist() == [len(row) for row in rows]
    none = trained().encode_flat([], 1)
    assert none.tokens.tolist() == none.lengths.tolist() == []
