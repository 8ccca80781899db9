"""Names and tokenization of an example's texts."""

import functools
from collections.abc import Iterable

from common_jax.text.word_tokenizer import Rule, split_words

TEXTS = ("first", "second")


@functools.lru_cache(maxsize=4096)  # premises and questions repeat in consecutive examples
def tokenize(text: str, rule: Rule) -> tuple[str, ...]:
    """The words of a text in lower case."""
    return tuple(text[start:end].lower() for start, end in split_words(text, rule))


def overlap(first: Iterable[str], second: Iterable[str]) -> tuple[int, int, int]:
    """The numbers of distinct words in both texts, in the first, and in the second."""
    first_words = set(first)
    second_words = set(second)
    return len(first_words & second_words), len(first_words), len(second_words)
