"""WordC1 and WordC2 of Table 5: sentences ranked by the words that they share with the question.

There are no parameters. The logit of the second label is the number of distinct words that both
texts have, divided by that of the second text (WordC1) or of the first (WordC2).
"""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32

from attconv_jax.data.text import overlap
from attconv_jax.models.base import PairModel, PairModule, Text, network_of
from common_jax.inputs import Annotations, ExampleInput, Input


@dataclasses.dataclass(frozen=True)
class WordCounts(ExampleInput):
    """The numbers of distinct words in both texts, in the first, and in the second."""

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
      share_of: the text whose number of distinct words is the denominator.
    """

    needs_pairs = True
    needs_two_labels = True
    share_of: Literal["first", "second"] = "second"

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (WordCounts(),)


@network_of(WordCount)
class WordCountModule(PairModule):
    """The share as a logit."""

    config: WordCount

    def __call__(self, texts: Sequence[Text], *, train: bool) -> Float[Array, "B labels"]:
        of_first, of_second = word_shares(texts).T
        share = of_second if self.config.share_of == "second" else of_first
        return jnp.stack([jnp.zeros_like(share), share], -1)


def word_shares(texts: Sequence[Text]) -> Float[Array, "B 2"]:
    """The number of shared words, divided by that of the first text and by that of the second."""
    counts = texts[0].example[WordCounts.key].astype(jnp.float32)
    return counts[:, :1] / jnp.maximum(counts[:, 1:], 1)
