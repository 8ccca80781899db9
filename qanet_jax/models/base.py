"""Interface of readers: the config section `model`, from which a flax module is made."""

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from common_jax.fields import FORMER, Choice, Section, require, size
from common_jax.inputs import Input
from common_jax.text.word_tokenizer import ENGLISH, UNICODE, Rule

if TYPE_CHECKING:
    import flax.linen as nn


@dataclasses.dataclass(frozen=True)
class WordsConfig(Section):
    """Sizes of the tables of word and character vectors, for all readers.

    Attributes:
      dim: p1, size of a word's vector.
      rows: rows of a trained table of word vectors; 0 with fixed vectors.
      char_rows: rows of the table of character vectors, including padding and unknown characters.
      rule: word tokenizer (`common_jax.text.word_tokenizer`): "unicode" for all scripts, or
        "english", that of the published results.
    """

    section: ClassVar[str] = "words"
    dim: int = size(300)
    rows: int = 0
    char_rows: int = size(256, least=3)
    rule: Rule = dataclasses.field(default=UNICODE, metadata={FORMER: ENGLISH})

    def __post_init__(self):
        super().__post_init__()
        require(
            self.rows == 0 or self.rows >= 3,
            f"words.rows={self.rows}: 0, or at least 3 (padding, unknown and a word)",
        )


@dataclasses.dataclass(frozen=True)
class ReaderModel(Choice):
    """A reader, which locates the answer to a question in a context."""

    section: ClassVar[str] = "model"

    @abc.abstractmethod
    def module(self, words: WordsConfig, dtype: Any) -> "nn.Module":
        """The module, called as (context, question, *, train) with two `qanet_jax.layers.Words`.

        It returns float32 logits of the answer's first and last word, [B, N] each, with
        `common_jax.masks.MASKED` at padding; and optionally a third value, further losses of each
        example, {name: [B]}, which training adds to its loss.

        If `train`, dropout has the random stream `common_jax.layers.DROPOUT`. The integers of an
        `ExampleInput` are a further keyword argument, named by its key.

        Args:
          words: the section `words` of the config.
          dtype: of activations and matrix products.
        """

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The module's inputs beside words, characters and vectors, for words (`Words.inputs`) or
        examples."""
        return ()

    @property
    def word_length(self) -> int:
        """Number of characters of a word that the model reads; 0 is data.word_length."""
        return 0
