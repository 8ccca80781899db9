"""Interface of matching models, and the network of word vectors and a matching model.

A model is a `PairModel`, a config section, and the flax module that it makes, from texts to logits
of labels. Word vectors, data, losses, evaluation and prediction are shared.
"""

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attconv_jax.data.text import TEXTS
from common_jax.fields import Choice, require
from common_jax.inputs import Input, columns_of
from common_jax.layers import Dense
from common_jax.scopes import scope
from common_jax.sharding import gathered, spread

SPREAD = 0.1  # standard deviation of initial word vectors without a file of vectors
TABLES = ("word_embedding", "second_word_embedding")  # names of parameters
POOLED = -1  # see `AttentionMap`


class Text(NamedTuple):
    """A batch of texts.

    Attributes:
      ids: word ids; 0 is padding.
      valid: False at padding.
      words: word vectors, zeros at padding.
      second: word vectors of the second table; None if the model has one table.
      inputs: the model's inputs for words, by key (`PairModel.inputs`).
      example: the model's inputs for examples, by key; the same for both texts.
      table: the vectors of the vocabulary.
    """

    ids: Int[Array, "B T"]
    valid: Bool[Array, "B T"]
    words: Float[Array, "B T D"]
    second: Float[Array, "B T D"] | None
    inputs: Mapping[str, Int[Array, "B T _"]]
    example: Mapping[str, Int[Array, "B _"]]
    table: Float[Array, "R D"]


class AttentionMap(NamedTuple):
    """Attention weights of one text's words over another's.

    Attributes:
      text: index of the attending text; `POOLED` if the rows are weighted sums of the context, not
        words.
      context: index of the text attended to.
    """

    text: int
    context: int
    weights: Float[Array, "B T S"]


Logits = Float[Array, "B labels"]
Losses = dict[str, Float[Array, "B"]]
Explained = tuple[Logits, list[list[AttentionMap]]]


class PairModule(nn.Module):
    """The network of a matching model.

    Attributes:
      config: the model's fields; a subclass narrows the type.
      labels: number of labels.
      dtype: of activations and matrix products; parameters, softmaxes and logits are float32.
    """

    config: Any
    labels: int
    dtype: Any = jnp.float32

    @abc.abstractmethod
    def __call__(self, texts: Sequence[Text], *, train: bool) -> Logits | tuple[Logits, Losses]:
        """Logits in float32; optionally also further losses of each example by name, which training
        adds to its loss and logs.

        Args:
          texts: one or two.
          train: whether dropout is on; it draws from the stream `common_jax.layers.DROPOUT`.
        """

    def explain(self, texts: Sequence[Text]) -> Explained:
        """Logits without dropout, and the attention of each layer, lowest first; no layers for a
        model without attention."""
        return without_losses(self(texts, train=False))[0], []

    def _output(self, x: Float[Array, "B _"]) -> Logits:
        """Logits by a linear layer in float32, for networks without a `Head`."""
        output = Dense(self.labels, ("mlp", "labels"), jnp.float32, name="output")
        return output(x.astype(jnp.float32))


Network = TypeVar("Network", bound=PairModule)


class AttendingModule(PairModule):
    """The network of a matching model whose forward pass also returns its attention."""

    def __call__(self, texts: Sequence[Text], *, train: bool) -> Logits:
        return self._forward(texts, train)[0]

    def explain(self, texts: Sequence[Text]) -> Explained:
        return self._forward(texts, train=False)

    @abc.abstractmethod
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the attention of each layer, lowest first."""


@dataclasses.dataclass(frozen=True)
class PairModel(Choice):
    """A matching model of one or two texts; the section `model` of a config.

    Attributes:
      needs_pairs: whether the model cannot read single texts.
      needs_two_labels: whether it has logits of two labels only.
      network: of the model, by `network_of`.
    """

    section: ClassVar[str] = "model"
    needs_pairs: ClassVar[bool] = False
    needs_two_labels: ClassVar[bool] = False
    network: ClassVar[type[PairModule]]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The model's inputs beside words."""
        return ()

    @property
    def second_table(self) -> bool:
        """Whether there is a second table of word vectors, initially a copy of the first."""
        return False

    def require_texts(self, texts: int) -> None:
        """Raises UserError if the model cannot read examples of this number of texts, 1 or 2."""
        require(texts == 2 or not self.needs_pairs, f"{type(self).__name__}: needs two texts")

    def module(self, labels: int, dtype: Any) -> PairModule:
        """The network, with the attributes `labels` and `dtype` of `PairModule`."""
        two = f"{type(self).__name__}: needs two labels, not {labels}"
        require(labels == 2 or not self.needs_two_labels, two)
        return self.network(self, labels, dtype)


def network_of(model: type[PairModel]) -> Callable[[type[Network]], type[Network]]:
    """Decorates the network of a model."""

    def decorated(network: type[Network]) -> type[Network]:
        model.network = network
        return network

    return decorated


class Matcher(nn.Module):
    """Word vectors and a matching model, with their parameters in one tree.

    Attributes:
      rows: R, of a table.
      dim: D, of a word's vector.
      labels: number of labels.
      dtype: of activations and matrix products.
      trained: whether the tables are trained.
    """

    model: PairModel
    rows: int
    dim: int
    labels: int
    dtype: Any = jnp.float32
    trained: bool = True

    def setup(self):
        # the tables
        axes = ("vocab", "embed")
        words, second = TABLES
        normal = nn.with_logical_partitioning(nn.initializers.normal(SPREAD), axes)
        self.word_embedding = self.param(words, normal, (self.rows, self.dim))
        if self.model.second_table:
            copy = nn.with_logical_partitioning(lambda key: self.word_embedding + 0, axes)
            self.second_word_embedding = self.param(second, copy)

        # the model, whose parameters are beside them
        self.matching = self.model.module(self.labels, self.dtype)
        nn.share_scope(self, self.matching)

    def __call__(self, arrays: Mapping[str, Array], *, train: bool) -> tuple[Logits, Losses]:
        """Logits, and the model's further losses.

        Args:
          arrays: the word ids of each of `TEXTS`, and the arrays of the model's inputs
            (`common_jax.inputs.columns_of`).
          train: whether dropout is on.
        """
        return without_losses(self.matching(self._texts(arrays), train=train))

    def explain(self, arrays: Mapping[str, Array]) -> Explained:
        """Logits, and the attention of each layer, lowest first."""
        return self.matching.explain(self._texts(arrays))

    def _texts(self, arrays: Mapping[str, Array]) -> list[Text]:
        # the model's inputs, by text; "" is the example
        names = [name for name in TEXTS if name in arrays]
        inputs: dict[str, dict[str, Array]] = {name: {} for name in ("", *names)}
        for column in columns_of(self.model.inputs, names):
            inputs[column.text][column.input.key] = arrays[column.name]

        # each text with its words' vectors
        texts = []
        table = self._table(self.word_embedding)
        with scope("embedding"):
            for name in names:
                ids = arrays[name]
                words = self._embed(table, ids)
                second = None
                if self.model.second_table:
                    second = self._embed(self._table(self.second_word_embedding), ids)
                texts.append(Text(ids, ids != 0, words, second, inputs[name], inputs[""], table))
        return texts

    def _table(self, table: Float[Array, "R D"]) -> Float[Array, "R D"]:
        table = gathered(table, "vocab", "embed")
        return table if self.trained else jax.lax.stop_gradient(table)

    def _embed(self, table: Float[Array, "R D"], ids: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        vectors = spread(jnp.take(table, ids, axis=0).astype(self.dtype))
        return jnp.where((ids != 0)[..., None], vectors, 0)


def without_losses(output: Logits | tuple[Logits, Losses]) -> tuple[Logits, Losses]:
    """The output of a `PairModule`, with empty losses if it has none."""
    return output if isinstance(output, tuple) else (output, {})
