"""The interface of matching models, and the network of word vectors and such a model.

A model is a `PairModel`, a config section, and the flax module that it makes: of texts, each a
`Text`, it gives the scores of labels. Tables of word vectors, reading, losses, evaluation and
prediction are the same for all models.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attconv_jax.data.text import TEXTS
from common_jax.fields import Choice
from common_jax.inputs import Input, columns_of
from common_jax.scopes import part
from common_jax.sharding import gathered, spread

SPREAD = 0.1  # standard deviation of words' vectors where there is no file
TABLES = ("word_embedding", "second_word_embedding")  # parameters
POOLED = -1  # see `AttentionMap`


class Text(NamedTuple):
    """What a text is to a model.

    Attributes:
      ids: numbers of its words; 0 is padding.
      valid: which of them are words.
      words: their vectors, zeros at padding.
      second: their vectors of the second table; None where the model has one table.
      inputs: by key what `PairModel.inputs` give of its words.
      example: by key what they give of the example that the text is in; the same for both texts.
      table: the vectors of all words.
    """

    ids: Int[Array, "B T"]
    valid: Bool[Array, "B T"]
    words: Float[Array, "B T D"]
    second: Float[Array, "B T D"] | None
    inputs: Mapping[str, Int[Array, "B T _"]]
    example: Mapping[str, Int[Array, "B _"]]
    table: Float[Array, "R D"]


class AttentionMap(NamedTuple):
    """Attention of one text's words to another's.

    Attributes:
      text: number of the text that attended; `POOLED` where the rows are no words but weighted sums
        of the context.
      context: number of the text attended to.
    """

    text: int
    context: int
    weights: Float[Array, "B T S"]


Logits = Float[Array, "B labels"]
Losses = dict[str, Float[Array, "B"]]
Explained = tuple[Logits, list[list[AttentionMap]]]


class PairModule(nn.Module):
    """The network of a matching model."""

    @abc.abstractmethod
    def __call__(self, texts: Sequence[Text], *, train: bool) -> Logits | tuple[Logits, Losses]:
        """Logits in float32; and further losses of each example by name, which are added to the
        loss in training and logged.

        Args:
          texts: one or two.
          train: whether dropout is on; it draws from the stream `common_jax.layers.DROPOUT`.
        """

    def explain(self, texts: Sequence[Text]) -> Explained:
        """Logits without dropout, and the attention of each layer, lowest first; a model without
        attention has no layer to show."""
        return without_losses(self(texts, train=False))[0], []


class AttendingModule(PairModule):
    """The network of a matching model whose forward pass also gives its attention."""

    def __call__(self, texts: Sequence[Text], *, train: bool) -> Logits:
        return self._forward(texts, train)[0]

    def explain(self, texts: Sequence[Text]) -> Explained:
        return self._forward(texts, train=False)

    @abc.abstractmethod
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the attention of each layer, lowest first."""


@dataclasses.dataclass(frozen=True)
class PairModel(Choice):
    """A matching model, between two texts or of one. Its fields are those of a config's section
    `model`."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What the model reads beside words."""
        return ()

    @property
    def second_table(self) -> bool:
        """Whether there is a second table of word vectors, which begins as a copy of the first."""
        return False

    def require_texts(self, texts: int) -> None:
        """Raises UserError if the model does not read 1 or 2 texts; `texts` says how many."""

    @abc.abstractmethod
    def module(self, labels: int, dtype: Any) -> PairModule:
        """The network.

        Args:
          labels: how many there are.
          dtype: of activations and products; parameters, softmaxes and logits are float32.
        """


class Matcher(nn.Module):
    """Tables of word vectors and a matching model, whose parameters are in one tree.

    Attributes:
      model: the matching model.
      rows: of a table, R.
      dim: D, of a word's vector.
      labels: how many there are.
      dtype: of activations and products.
      trained: whether gradients reach the tables.
    """

    model: PairModel
    rows: int
    dim: int
    labels: int
    dtype: Any = jnp.float32
    trained: bool = True

    def setup(self):
        table = lambda init: nn.with_logical_partitioning(init, ("vocab", "embed"))
        words, second = TABLES
        normal = table(nn.initializers.normal(SPREAD))
        self.word_embedding = self.param(words, normal, (self.rows, self.dim))
        if self.model.second_table:
            copy = table(lambda key: self.word_embedding + 0)
            self.second_word_embedding = self.param(second, copy)
        self.matching = self.model.module(self.labels, self.dtype)
        nn.share_scope(self, self.matching)

    def __call__(self, arrays: Mapping[str, Array], *, train: bool) -> tuple[Logits, Losses]:
        """Logits, and the model's further losses.

        Args:
          arrays: the numbers of the words of each of `TEXTS`, and the arrays of the model's inputs
            (`common_jax.inputs.columns_of`).
          train: whether dropout is on.
        """
        return without_losses(self.matching(self._texts(arrays), train=train))

    def explain(self, arrays: Mapping[str, Array]) -> Explained:
        """Logits, and the attention of each layer, lowest first."""
        return self.matching.explain(self._texts(arrays))

    def _texts(self, arrays: Mapping[str, Array]) -> list[Text]:
        names = [name for name in TEXTS if name in arrays]
        columns = columns_of(self.model.inputs, names)
        of = lambda text: {c.input.key: arrays[c.name] for c in columns if c.text == text}
        example, texts = of(""), []
        table = self._table(self.word_embedding)
        with part("embedding"):
            for name in names:
                ids = arrays[name]
                words, second = self._embed(table, ids), None
                if self.model.second_table:
                    second = self._embed(self._table(self.second_word_embedding), ids)
                texts.append(Text(ids, ids != 0, words, second, of(name), example, table))
        return texts

    def _table(self, table: Float[Array, "R D"]) -> Float[Array, "R D"]:
        table = gathered(table, "vocab", "embed")
        return table if self.trained else jax.lax.stop_gradient(table)

    def _embed(self, table: Float[Array, "R D"], ids: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        vectors = spread(jnp.take(table, ids, axis=0).astype(self.dtype))
        return jnp.where((ids != 0)[..., None], vectors, 0)


def without_losses(output: Logits | tuple[Logits, Losses]) -> tuple[Logits, Losses]:
    """What a `PairModule` returns, its losses empty where it has none."""
    return output if isinstance(output, tuple) else (output, {})
