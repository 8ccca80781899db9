"""Ids of words and characters, and fixed word vectors if there are any."""

import itertools
import json
import typing
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int, Int32

from common_jax.errors import UserError
from common_jax.text.vectors import Vectors, find_cased_form
from common_jax.text.word_tokenizer import ENGLISH, Rule

UNKNOWN = 1  # the id of unknown words and characters; 0 is padding
_FIRST = 2

_WORDS_FILE = "lexicon.json"
_TABLE = "vectors.npy"
_UNREADABLE = (
    *(OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RecursionError),
)


class Vocabulary:
    """Ids of words and characters.

    Attributes:
      words: from words to ids, at least 2; several words may share one.
      shared: number of ids after those of the words, for hash buckets of unknown words.
      table: [R, D] the fixed vectors, row n - 2 for word id n; None if word vectors are trained.
      rule: that splits a text into these words (`word_tokenizer`).
    """

    def __init__(
        self,
        words: dict[str, int],
        characters: Sequence[str],
        table: Float[np.ndarray, "R D"] | None = None,
        shared: int = 0,
        rule: Rule = ENGLISH,
    ):
        """Use `make` or `load`.

        Args:
          characters: in the order of their ids, from 2.
        """
        self.shared = shared
        self._first_shared = max(words.values(), default=UNKNOWN) + 1
        self.words = words
        self._characters = list(characters)
        self._char_ids = {c: n for n, c in enumerate(characters, start=_FIRST)}
        self.table = table
        self.rule = rule
        self._cached_ids: dict[str, int] = {}

    @classmethod
    def make(
        cls,
        counts: Counter[str],
        words: int | Vectors,
        characters: int,
        shared: int = 0,
        rule: Rule = ENGLISH,
    ) -> "Vocabulary":
        """A vocabulary of the most frequent characters and words, or of the words with vectors.

        Args:
          counts: of words in training; characters are counted in these words.
          words: the fixed vectors, or the largest number of word ids, for the most frequent words.
          characters: the largest number of character ids.
          shared: how many word ids are hash buckets of unknown words, so that a name that occurs
            in two texts likely has one id of its own (Parikh et al. 2016, A Decomposable Attention
            Model, section 5.1). With 0, all unknown words have the id `UNKNOWN`.
          rule: of the words.
        """
        assert not (shared and isinstance(words, Vectors)), "fixed vectors are not shared"
        letters = _count_letters(counts)
        if isinstance(words, Vectors):
            ids = {w: row + _FIRST for w, row in words.rows.items()}
            table = words.table
        else:
            frequent = _most_frequent(counts, words - _FIRST - shared)
            ids = {w: n for n, w in enumerate(frequent, start=_FIRST)}
            table = None
        return cls(ids, _most_frequent(letters, characters - _FIRST), table, shared, rule)

    def __contains__(self, word: str) -> bool:
        """Whether the word, or a form of it, has an id of its own."""
        return find_cased_form(word, self.words.__contains__) is not None

    @property
    def size(self) -> int:
        """The number of rows of trained vectors, including those of padding and unknown words."""
        return self._first_shared + self.shared

    @property
    def char_size(self) -> int:
        """The number of rows of characters, including those of padding and unknown ones."""
        return _FIRST + len(self._characters)

    def word_ids(self, words: Iterable[str]) -> list[int]:
        """The id of each word, or of the first of its forms (`vectors.FORMS`) that has one."""
        ids = self._cached_ids
        return [ids[w] if w in ids else ids.setdefault(w, self._word_id(w)) for w in words]

    def unknown(self, *texts: Iterable[str]) -> int:
        """The number of words of texts that have no id of their own, counting repetitions."""
        ids = itertools.chain.from_iterable(map(self.word_ids, texts))
        return sum(not UNKNOWN < number < self._first_shared for number in ids)

    def char_ids(self, words: Sequence[str], length: int) -> Int32[np.ndarray, "n length"]:
        """The ids of each word's first `length` characters, padded with 0."""
        rows = np.zeros((len(words), length), np.int32)
        for row, word in zip(rows, words, strict=True):
            start = word[:length]
            row[: len(start)] = [self._char_ids.get(c, UNKNOWN) for c in start]
        return rows

    def char_coverage(self, counts: Counter[str]) -> tuple[float, int]:
        """The share of characters that have ids, and the `char_size` with which all would."""
        letters = _count_letters(counts)
        known = sum(count for letter, count in letters.items() if letter in self._char_ids)
        return known / max(1, letters.total()), _FIRST + len(letters)

    def vectors(self, ids: Int[np.ndarray, "*b"]) -> Float[np.ndarray, "*b D"]:
        """The fixed vectors of words; zeros for padding and unknown ones."""
        assert self.table is not None
        if not len(self.table):
            return np.zeros((*ids.shape, self.table.shape[1]), np.float32)
        vectors = self.table[np.maximum(ids - _FIRST, 0)]
        return np.where((ids >= _FIRST)[..., None], vectors, np.float32(0))

    def compatible_with(self, other: "Vocabulary") -> bool:
        """Whether a model trained with one can be used with the other.

        The rule of words and the ids of characters must be the same, and so must those of words if
        their vectors are trained. Fixed vectors must be equal for common words, and each vocabulary
        may have further words.
        """
        if (self._characters, self.rule) != (other._characters, other.rule):
            return False
        if self.table is None or other.table is None:
            same = self.words == other.words and self.shared == other.shared
            return self.table is other.table and same
        both = [word for word in self.words if word in other.words]
        own_vectors, other_vectors = (
            vocabulary.vectors(np.array([vocabulary.words[word] for word in both], int))
            for vocabulary in (self, other)
        )
        return np.array_equal(own_vectors, other_vectors)

    def has_vectors_of(self, vectors: Vectors) -> bool:
        """Whether the words that are in both have the same fixed vectors."""
        rows = {word: vectors.rows[word] for word in self.words if word in vectors.rows}
        own_vectors = self.vectors(np.array([self.words[word] for word in rows], int))
        return np.array_equal(own_vectors, vectors.table[[*rows.values()]])

    def ids_from(self, other: "Vocabulary") -> Int32[np.ndarray, "n"]:
        """The id here for each word id of `other`, both with trained vectors. 0 is padding in both;
        a word without an id here has the id of unknown words."""
        words = other.words
        first = self._first_shared
        ids = np.full(other._first_shared + other.shared, UNKNOWN, np.int32)
        ids[0] = 0
        ids[list(words.values())] = self.word_ids(words)
        if self.shared == other.shared:
            ids[other._first_shared :] = range(first, first + self.shared)
        return ids

    def extended(self, vectors: Vectors) -> "Vocabulary":
        """Adds words with fixed vectors; present words keep their ids."""
        assert self.table is not None
        new = {word: row for word, row in vectors.rows.items() if word not in self.words}
        used = sorted({*new.values()})
        ids = dict(zip(used, itertools.count(_FIRST + len(self.table))))
        words = {**self.words, **{word: ids[row] for word, row in new.items()}}
        table = np.concatenate([self.table, vectors.table[used]])
        return Vocabulary(words, self._characters, table, rule=self.rule)

    def save(self, folder: Path) -> None:
        """Writes the vocabulary into an existing folder."""
        saved = {"words": self.words, "characters": self._characters, "shared": self.shared}
        rule = {} if self.rule == ENGLISH else {"rule": self.rule}
        text = json.dumps(saved | rule, ensure_ascii=False)
        (folder / _WORDS_FILE).write_text(text + "\n", "utf-8")
        if self.table is not None:
            np.save(folder / _TABLE, self.table)

    @classmethod
    def load(cls, folder: Path) -> "Vocabulary":
        """Reads the files of `save`; the vectors are memory-mapped.

        Raises:
          UserError: if it is missing or broken.
        """
        try:
            saved = json.loads((folder / _WORDS_FILE).read_text("utf-8"))
            table = np.load(folder / _TABLE, "r") if (folder / _TABLE).exists() else None
            if type(saved["words"]) is not dict or type(saved["characters"]) is not list:
                raise ValueError("words or characters of another form")

            # Vocabularies of earlier versions lack these fields.
            shared = saved.get("shared", 0)
            rule = saved.get("rule", ENGLISH)
            if rule not in typing.get_args(Rule):
                raise ValueError(f"words by an unknown rule, {str(rule)[:20]}")
            vocabulary = cls(saved["words"], saved["characters"], table, shared, rule)
            vocabulary._check()
            return vocabulary
        except _UNREADABLE as error:
            raise UserError(
                f"{folder}: not a complete vocabulary ({type(error).__name__}: {error})"
            ) from error

    def _check(self) -> None:
        """Raises ValueError for ids without a row, or invalid characters."""
        rows = len(self.words) if self.table is None else len(self.table)
        for word, number in self.words.items():
            if type(number) is not int or not _FIRST <= number < _FIRST + rows:
                raise ValueError(f"{word!r} has the id {str(number)[:20]}")
        if not all(type(c) is str for c in self._characters):
            raise ValueError("characters that are no strings")
        if type(self.shared) is not int or self.shared < 0:
            raise ValueError("shared is not a number of ids")
        if self.table is not None and (self.table.ndim, self.table.dtype) != (2, np.float32):
            raise ValueError(f"{_TABLE} is no table of float32")

    def _word_id(self, word: str) -> int:
        if match := find_cased_form(word, self.words.__contains__):
            return self.words[match[1]]
        if not self.shared:
            return UNKNOWN
        return self._first_shared + zlib.crc32(word.encode("utf-8", "surrogatepass")) % self.shared


def _count_letters(counts: Counter[str]) -> Counter[str]:
    letters = Counter[str]()
    for word, count in counts.items():
        for letter in word:
            letters[letter] += count
    return letters


def _most_frequent(counts: Counter[str], size: int) -> list[str]:
    """The most frequent keys, equally frequent ones in code order."""
    return sorted(counts, key=lambda key: (-counts[key], key))[: max(0, size)]
