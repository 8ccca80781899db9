"""Bidirectional attention flow (Seo et al. 2017), compared with QANet in Tables 2, 4, 6 and 7.

Differences from the authors' code: padding is excluded from both softmaxes and from the maximum
over the question's words; windows of characters that begin after a word's end are excluded; the
LSTM of the context has dropout, as that of the question.
"""

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from common_jax.convolution import Convolution
from common_jax.fields import odd, rate, require, size
from common_jax.layers import Dropout
from common_jax.masks import MASKED, masked_softmax
from common_jax.recurrent import LSTM, Bidirectional
from common_jax.scopes import scope
from common_jax.sharding import spread
from qanet_jax.layers import ATTENTION, Highway, Words, named, trilinear, vectors
from qanet_jax.models.base import ReaderModel, WordsConfig


@dataclasses.dataclass(frozen=True)
class BiDAF(ReaderModel):
    """BiDAF, with the sizes of its paper.

    Attributes:
      char_dim: size of a character's vector.
      char_filters: filters of the convolution over a word's characters.
      char_kernel: width of the filters.
      hidden: d, units of each direction of an LSTM.
      dropout: rate on the inputs of the convolution, of all LSTMs and of the pointers.
    """

    char_dim: int = size(8)
    char_filters: int = size(100)
    char_kernel: int = odd(5)
    hidden: int = size(100)
    dropout: float = rate(0.2)

    def __post_init__(self):
        super().__post_init__()
        require(
            self.char_kernel <= self.word_length,
            f"model.char_kernel={self.char_kernel}: words have {self.word_length} characters",
        )

    @property
    def word_length(self) -> int:
        return 16

    def module(self, words: WordsConfig, dtype: Any) -> "BiDAFNetwork":
        return BiDAFNetwork(self, words, dtype)


class BiDAFNetwork(nn.Module):
    """The six layers of section 2.

    Attributes:
      config: sizes.
      words: dimension and rows of the tables of vectors.
      dtype: of activations and matrix products; parameters, softmaxes and logits are float32.
    """

    config: BiDAF
    words: WordsConfig
    dtype: Any = jnp.float32

    def setup(self):
        config = self.config
        both = 2 * config.hidden

        # embedding and contextual layers
        self.embedding = BiDAFEmbedding(config, self.words, self.dtype)
        self.contextual = self._lstm(config.char_filters + self.words.dim)

        # attention flow
        normal = named(nn.initializers.normal(both**-0.5), (None, "embed"))
        self.similarity = self.param("similarity", normal, (3, both))
        self.similarity_bias = self.param("similarity_bias", nn.initializers.zeros, ())

        # modeling and output layers
        self.modeling = [self._lstm(4 * both), self._lstm(both)]
        self.end_encoder = self._lstm(7 * both)
        glorot = nn.initializers.xavier_uniform()
        self.start_pointer = nn.Dense(1, dtype=jnp.float32, kernel_init=glorot)
        self.end_pointer = nn.Dense(1, dtype=jnp.float32, kernel_init=glorot)
        self.drop = Dropout(config.dropout)

    def _lstm(self, inputs: int) -> Bidirectional:
        return Bidirectional(LSTM, inputs, self.config.hidden, self.dtype)

    def __call__(
        self, context: Words, question: Words, *, train: bool
    ) -> tuple[Float[Array, "B N"], Float[Array, "B N"]]:
        """Logits of the answer's first and last word; very negative at padding."""

        def encode(lstm: Bidirectional, x: Array) -> Array:
            states, _ = lstm(self.drop(x, train=train), context.valid)
            return states.astype(self.dtype)

        with scope("embedding"):
            h, u = (self._contextual(words, train) for words in (context, question))
        with scope("attention"):
            g = self._attention_flow(h, u, context.valid, question.valid)
        with scope("encoder"):
            m = g
            for lstm in self.modeling:
                m = encode(lstm, m)

        with scope("pointers"):
            # the first word
            start = self._pointer(self.start_pointer, m, g, train)

            # the last word, from a further LSTM that also reads the first one's summary
            weights = masked_softmax(start, context.valid).astype(self.dtype)
            summary = jnp.einsum("bn,bnd->bd", weights, m)
            summary = jnp.broadcast_to(summary[:, None], m.shape)
            m2 = encode(self.end_encoder, jnp.concatenate([g, m, summary, m * summary], axis=-1))
            end = self._pointer(self.end_pointer, m2, g, train)
            return tuple(jnp.where(context.valid, x, MASKED) for x in (start, end))

    def _contextual(self, words: Words, train: bool) -> Float[Array, "B T E"]:
        x = self.drop(self.embedding(words, train=train), train=train)
        return self.contextual(x, words.valid)[0].astype(self.dtype)

    def _attention_flow(
        self,
        h: Float[Array, "B N E"],
        u: Float[Array, "B M E"],
        context_valid: Bool[Array, "B N"],
        question_valid: Bool[Array, "B M"],
    ) -> Float[Array, "B N G"]:
        """[h, u~, h * u~, h * h~] (Eq. 4)."""
        similarity = trilinear(h, u, self.similarity.astype(self.dtype)) + self.similarity_bias

        # u~: each word's weighted mean of the question
        to_question = masked_softmax(similarity, question_valid[:, None, :]).astype(self.dtype)
        self.sow(ATTENTION, "row", to_question)
        attended = jnp.einsum("bnm,bme->bne", to_question, u)

        # h~: a mean of the context, by each word's largest similarity
        best = jnp.where(question_valid[:, None, :], similarity, MASKED).max(-1)
        to_context = masked_softmax(best, context_valid).astype(self.dtype)
        summary = jnp.einsum("bn,bne->be", to_context, h)[:, None]

        return jnp.concatenate([h, attended, h * attended, h * summary], axis=-1)

    def _pointer(self, pointer: nn.Module, m: Array, g: Array, train: bool) -> Float[Array, "B N"]:
        x = self.drop(jnp.concatenate([m, g], axis=-1), train=train)
        return pointer(x)[..., 0]


class BiDAFEmbedding(nn.Module):
    """[x_c; x_w] through a two-layer highway network (section 2, layers 1 and 2).

    x_w is the word's fixed vector, zeros for unknown words, or a trained one; x_c the maximum over
    windows of characters of a convolution with ReLU.

    Attributes:
      config, words, dtype: as in `BiDAFNetwork`.
    """

    config: BiDAF
    words: WordsConfig
    dtype: Any

    @nn.compact
    def __call__(self, words: Words, *, train: bool) -> Float[Array, "B T P"]:
        x = jnp.concatenate([self._characters(words, train), self._word(words)], axis=-1)
        x = Highway(self.dtype, name="highway_0")(x)
        return Highway(self.dtype, name="highway_1")(x)

    def _word(self, words: Words) -> Float[Array, "B T P"]:
        if words.vectors is not None:
            return jnp.where(words.valid[..., None], words.vectors, 0).astype(self.dtype)
        table = vectors(self, "word_embedding", self.words.rows, self.words.dim, 0.5)
        return spread(jnp.take(table.astype(self.dtype), words.ids, axis=0))

    def _characters(self, words: Words, train: bool) -> Float[Array, "B T C"]:
        config = self.config

        # the characters' vectors
        is_character = words.characters != 0
        table = vectors(self, "character_embedding", self.words.char_rows, config.char_dim, 0.5)
        table = table.astype(self.dtype)
        x = jnp.take(table, words.characters, axis=0)
        x = jnp.where(is_character[..., None], x, 0)
        x = Dropout(config.dropout)(spread(x), train=train)

        # the maximum over windows inside the word
        convolution = Convolution(
            config.char_filters, config.char_kernel, self.dtype, name="character_convolution"
        )
        half = config.char_kernel // 2
        x = nn.relu(convolution(x))[..., half : x.shape[-2] - half, :]
        begins = is_character[..., : x.shape[-2]]
        return jnp.where(begins[..., None], x, 0).max(axis=-2)
