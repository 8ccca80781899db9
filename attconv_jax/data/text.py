"""Texts as the words that the model knows them by."""

import functools

from common_jax.text.word_tokenizer import split_words

TEXTS = ("first", "second")


@functools.lru_cache(maxsize=4096)  # a premise or a question comes several times in a row
def tokenize(text: str) -> tuple[str, ...]:
    """The words of a text in lower case."""
    return tuple(text[start:end].lower() for start, end in split_words(text))
