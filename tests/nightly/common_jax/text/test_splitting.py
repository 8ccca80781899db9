"""Long texts are split in linear time, however busy the machine is."""

import pytest
from nltk import redos

from attconv_jax.data.selection import split_by_punkt
from common_jax.text import word_tokenizer
from common_jax.text.sentence_splitter import split_sentences
from common_jax.text.word_tokenizer import split_words


@pytest.mark.parametrize(
    "unit", [".", ". ", "A. ", ".)", "[1]", ".[", ":1", "\n", "\n ", "。", "\0"]
)
def test_long_texts_take_linear_time(unit):
    text = unit * 100_000  # by a quadratic rule, minutes
    assert all(start < end for start, end in split_sentences(text))


@pytest.mark.parametrize("unit", ["a", "'", '"', "''\"``", ".", ").", "a.[", ":1", " ", "\n", "😀"])
def test_long_texts(unit):
    text = unit * (30_000 // len(unit))
    covered = sum(end - start for start, end in split_words(text))
    assert covered == len("".join(text.split()))


@pytest.mark.parametrize("split", [split_words, lambda text: split_by_punkt([text])])
def test_nltk_has_no_time_limit_as_on_a_busy_machine(monkeypatch, split):
    text = "(one) " * 1500 + "Another. " * 300
    word_tokenizer._treebank.cache_clear()
    monkeypatch.setattr(redos, "DEFAULT_TIMEOUT", 1e-9)
    with pytest.raises(TimeoutError):
        redos.compile("(a|b|ab)*c").search("ab" * 100_000)
    assert len(list(split(text)))
