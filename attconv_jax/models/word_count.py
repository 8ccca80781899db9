"""WordC1 and WordC2 of Table 5: sentences ranked by the words that they share with the question.

Nothing is trained. The logit of the second label is the number of distinct words that both texts
have, divided by the distinct words of the second text (WordC1) or of the first (WordC2).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32

from attconv_jax.data.text import overlap
from attconv_jax.models.base import PairModel, PairModule, Text
from common_jax.fields import require
from common_jax.inputs import Annotations, ExampleInput, Input


@dataclasses.dataclass(frozen=True)
class WordCounts(ExampleInput):
    """The numbers of distinct words: of both texts, of the first, of the second."""

    key: ClassVar[str] = "counts"

    @property
    def width(self) -> int:
        return 3

    def encode(
        self, texts: Sequence[Sequence[str]], annotations: Sequence[Annotations]
    ) -> Int32[np.ndarray, "3"]:
        return np.array(overlap(*texts), np.int32)


@dataclasses.dataclass(frozen=True)
class WordCount(PairModel):
    """The share of words that two texts have in common.

    Attributes:
      share_of: the text whose words are 100 %.
    """

    share_of: Literal["first", "second"] = "second"

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (WordCounts(),)

    def require_texts(self, texts: int) -> None:
        require(texts == 2, "WordCount: needs two texts")

    def module(self, labels: int, dtype: Any) -> "WordCountModule":
        require(labels == 2, f"WordCount: needs two labels, not {labels}")
        return WordCountModule(self)


class WordCountModule(PairModule):
    """The share as a logit."""

    config: WordCount

    def __call__(self, texts: Sequence[Text], *, train: bool) -> Float[Array, "B labels"]:
        """Logits."""
        of_first, of_second = word_shares(texts).T
        share = of_second if self.config.share_of == "second" else of_first
        return jnp.stack([jnp.zeros_like(share), share], -1)


def word_shares(texts: Sequence[Text]) -> Float[Array, "B 2"]:
    """The shared words as shares of the first text's and of the second's."""
    counts = texts[0].example[WordCounts.key].astype(jnp.float32)
    return counts[:, :1] / jnp.maximum(counts[:, 1:], 1)
