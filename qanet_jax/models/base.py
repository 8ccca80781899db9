"""What a reader is: the fields of a config's `model`, from which a flax module is made."""

import abc
import dataclasses
from typing import Any

import flax.linen as nn

from common_jax.fields import Choice, require, require_sizes
from common_jax.inputs import Input


@dataclasses.dataclass(frozen=True)
class WordsConfig:
    """Words and characters as numbers, the same for all readers.

    Attributes:
      dim: numbers of a word's vector; p1 in the paper.
      rows: rows of a trained table of word vectors; 0 where fixed vectors are given.
      char_rows: numbers that characters have, with those of padding and of unknown characters.
    """

    dim: int = 300
    rows: int = 0
    char_rows: int = 256

    def __post_init__(self):
        require_sizes("words", self, "dim")
        require(
            self.rows == 0 or self.rows >= 3,
            f"words.rows={self.rows}: 0, or at least 3 (padding, unknown and a word)",
        )
        require(self.char_rows >= 3, f"words.char_rows={self.char_rows}: at least 3")


@dataclasses.dataclass(frozen=True)
class ReaderModel(Choice):
    """A reader: where in a context the answer to a question starts and where it ends."""

    @abc.abstractmethod
    def module(self, words: WordsConfig, dtype: Any) -> nn.Module:
        """The module, called as (context, question, *, train), both `qanet_jax.layers.Words`.

        It returns float32 logits of the answer's first and last word, [B, N] each, very negative
        (`common_jax.masks.MASKED`) where the context has no word; and, if it has further losses, a
        third value: {name: [B]}, of each example, which training adds to its loss.

        Dropout has the random stream `common_jax.layers.DROPOUT`, if `train`. The integers of an
        `ExampleInput` are a further keyword argument, called by its key.

        Args:
          words: the section `words` of the config.
          dtype: of activations and products.
        """

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What the module reads beside words, characters and vectors: of each word
        (`Words.inputs`) or of each example."""
        return ()

    @property
    def word_length(self) -> int:
        """Characters of a word that are read; 0 is data.word_length."""
        return 0
