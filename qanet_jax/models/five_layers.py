"""The five layers of Yu et al. 2018, section 2.2, with exchangeable encoders.

Embedding, embedding encoder, context-query attention, model encoder, pointers. `QANet` and the
paper's recurrent systems (Tables 3 and 8) differ only in the two encoders.
"""

import abc
import dataclasses
from typing import Any, Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from common_jax.convolution import Convolution, TableConvolution
from common_jax.fields import odd, positive, rate, size
from common_jax.layers import DROPOUT, Dense, Dropout
from common_jax.masks import MASKED
from common_jax.scopes import scope
from common_jax.sharding import platform, spread
from common_jax.stack import unrolled
from common_jax.text.vocabulary import UNKNOWN
from qanet_jax.layers import ContextQueryAttention, Highway, Words, vectors
from qanet_jax.models.base import ReaderModel, WordsConfig


@dataclasses.dataclass(frozen=True)
class FiveLayers(ReaderModel):
    """A reader of five layers; subclasses define the encoders.

    Attributes:
      dim: d, width of all layers after the embedding.
      char_dim: p2, size of a character's vector.
      char_pooling: whether the maximum over a word's characters is of a "convolution" (the paper's
        "convolution output") or of their vectors ("max").
      char_kernel: width of the convolution.
      embedding_std: standard deviation of the initial trained vectors. The encoder adds position
        encodings, of about 0.7 on average; with much smaller vectors learning is slow.
      query_to_context: whether context-query attention includes DCN's query-to-context part, of "a
        little benefit" (section 2.2, layer 3).
      encoder_passes: how often the model encoder runs; the pointers read its last three outputs.
      unroll: unrolls the loops over the encoder's passes and blocks, which compiles more slowly and
        runs faster; "auto": on accelerators.
      word_dropout, char_dropout, dropout: rates on word vectors, on characters' vectors and
        between layers.
    """

    dim: int = size(128)
    char_dim: int = size(200)
    char_pooling: Literal["convolution", "max"] = "convolution"
    char_kernel: int = odd(5)
    embedding_std: float = positive(0.5)
    query_to_context: bool = True
    encoder_passes: int = size(3, least=3)
    unroll: Literal["auto", True, False] = "auto"
    word_dropout: float = rate(0.1)
    char_dropout: float = rate(0.05)
    dropout: float = rate(0.1)

    def unused(self) -> dict[str, str]:
        """Fields without effect given the others, each with the setting that gives it one."""
        without = self.char_pooling == "max"
        return {"char_kernel": "model.char_pooling=convolution"} if without else {}

    @abc.abstractmethod
    def encoders(self, dtype: Any) -> tuple[nn.Module, nn.Module]:
        """The embedding encoder and the model encoder, both called as (x [B, T, dim], valid [B, T],
        *, train) -> [B, T, dim]; `valid` is False at padding."""

    def module(self, words: WordsConfig, dtype: Any) -> "FiveLayerNetwork":
        return FiveLayerNetwork(self, words, dtype)


class FiveLayerNetwork(nn.Module):
    """The network of five layers.

    Attributes:
      config: sizes and encoders.
      words: dimension and rows of the tables of vectors.
      dtype: of activations and matrix products; parameters, softmaxes and logits are float32.
    """

    config: FiveLayers
    words: WordsConfig
    dtype: Any = jnp.float32

    def setup(self):
        config = self.config
        glorot = nn.initializers.xavier_uniform()
        self.embedding = Embedding(config, self.words, self.dtype)
        self.embedding_projection = Dense(config.dim, ("embed", "mlp"), self.dtype)
        self.embedding_encoder, self.model_encoder = config.encoders(self.dtype)
        self.context_query_attention = ContextQueryAttention(self.dtype, config.query_to_context)
        self.context_query_projection = Dense(config.dim, ("embed", "mlp"), self.dtype)
        self.start_pointer = nn.Dense(1, use_bias=False, dtype=jnp.float32, kernel_init=glorot)
        self.end_pointer = nn.Dense(1, use_bias=False, dtype=jnp.float32, kernel_init=glorot)
        self.dropout = Dropout(config.dropout)

    def __call__(
        self, context: Words, question: Words, *, train: bool
    ) -> tuple[Float[Array, "B N"], Float[Array, "B N"]]:
        """Logits of the answer's first and last word; very negative at padding."""
        with scope("embedding"):
            c, q = (self._encode(words, train) for words in (context, question))
        with scope("attention"):
            x = self.context_query_attention(c, q, context.valid, question.valid)
            x = self.dropout(self.context_query_projection(x), train=train)
        with scope("encoder"):
            *_, m0, m1, m2 = self._passes(x, context.valid, train)
        with scope("pointers"):
            start = self.start_pointer(jnp.concatenate([m0, m1], axis=-1))[..., 0]
            end = self.end_pointer(jnp.concatenate([m0, m2], axis=-1))[..., 0]
            return tuple(jnp.where(context.valid, x, MASKED) for x in (start, end))

    def _encode(self, words: Words, train: bool) -> Float[Array, "B T D"]:
        """Embedding and embedding encoder, with parameters shared by both texts."""
        x = self.embedding_projection(self.embedding(words, train=train))
        return self.embedding_encoder(self.dropout(x, train=train), words.valid, train=train)

    def _passes(
        self, x: Float[Array, "B N D"], valid: Bool[Array, "B N"], train: bool
    ) -> Float[Array, "passes B N D"]:
        """The outputs of all passes of the model encoder, each run on the previous output."""

        def run_encoder(encoder: nn.Module, x: Array, _: None) -> tuple[Array, Array]:
            x = encoder(x, valid, train=train)
            return x, x

        passes = nn.scan(
            run_encoder,
            variable_broadcast="params",
            split_rngs={"params": False, DROPOUT: True},
            length=self.config.encoder_passes,
            unroll=self.config.encoder_passes if unrolled(self.config.unroll) else 1,
        )
        return passes(self.model_encoder, x, None)[1]


class Embedding(nn.Module):
    """[x_w; x_c] through a two-layer highway network (section 2.2, layer 1).

    x_w is the word's fixed vector, with one trained vector for all unknown words, or its trained
    vector. x_c is the maximum over the word's characters of a convolution of their vectors, or of
    the vectors; padding characters are excluded.

    Attributes:
      config, words, dtype: as in `FiveLayerNetwork`.
    """

    config: FiveLayers
    words: WordsConfig
    dtype: Any

    @nn.compact
    def __call__(self, words: Words, *, train: bool) -> Float[Array, "B T P"]:
        x_w = Dropout(self.config.word_dropout)(self._word(words), train=train)
        x = jnp.concatenate([x_w.astype(self.dtype), self._characters(words, train)], axis=-1)
        x = Highway(self.dtype, name="highway_0")(x)
        return Highway(self.dtype, name="highway_1")(x)

    def _word(self, words: Words) -> Float[Array, "B T P"]:
        std = self.config.embedding_std
        if words.vectors is None:
            table = vectors(self, "word_embedding", self.words.rows, self.words.dim, std)
            return spread(jnp.take(table, words.ids, axis=0))
        normal = nn.initializers.normal(std)
        unknown = self.param("unknown_word_embedding", normal, (self.words.dim,))
        known = jnp.where(words.valid[..., None], words.vectors, 0)
        return jnp.where((words.ids == UNKNOWN)[..., None], unknown[None, None], known)

    def _characters(self, words: Words, train: bool) -> Float[Array, "B T C"]:
        config = self.config
        dim = config.char_dim
        name = "character_embedding"
        table = vectors(self, name, self.words.char_rows, dim, config.embedding_std)
        table = table.astype(self.dtype)
        valid = (words.characters != 0)[..., None]

        # the vectors, or their convolution; without dropout equal characters have equal vectors,
        # which is faster on a CPU alone
        convolved = config.char_pooling == "convolution"
        sizes = (dim, config.char_kernel, self.dtype)
        name = "character_convolution"
        if convolved and not train and platform() == "cpu":
            x = nn.relu(TableConvolution(*sizes, name=name)(table, words.characters))
        else:
            x = spread(jnp.take(table, words.characters, axis=0))
            x = Dropout(config.char_dropout)(jnp.where(valid, x, 0), train=train)
            if convolved:
                x = nn.relu(Convolution(*sizes, name=name)(x))

        # the maximum over a word's characters
        maxima = jnp.where(valid, x, float(jnp.finfo(self.dtype).min)).max(axis=-2)
        return jnp.where(valid.any(axis=-2), maxima, 0)
