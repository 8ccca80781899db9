"""Layers that readers share: words from vectors and characters, context-query attention.

Dims beside the legend of `common_jax.masks`: N words of the context, M of the question, W
characters of a word.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, Literal

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from common_jax.convolution import Convolution, TableConvolution
from common_jax.layers import Dense, Dropout
from common_jax.masks import masked_softmax
from common_jax.pytrees import pytree
from common_jax.sharding import gathered, platform, spread
from common_jax.text.vocabulary import UNKNOWN
from qanet_jax.models.base import WordsConfig

named = nn.with_logical_partitioning
ATTENTION = "intermediates"  # the collection of a reader's context-query attention [B, N, M]
_product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


@pytree()
class Words:
    """A batch of texts as readers get them.

    Attributes:
      ids: word ids; 0 is padding, `vocabulary.UNKNOWN` a word without a vector.
      characters: character ids of each word; 0 is padding.
      vectors: fixed word vectors, zeros for unknown words; None if vectors are trained.
      inputs: the reader's inputs for words, by key.
    """

    ids: Int[Array, "B T"]
    characters: Int[Array, "B T W"]
    vectors: Float[Array, "B T P"] | None = None
    inputs: Mapping[str, Int[Array, "B T _"]] = dataclasses.field(default_factory=dict)

    @property
    def valid(self) -> Bool[Array, "B T"]:
        """False at padding."""
        return self.ids != 0


class Highway(nn.Module):
    """T(x) H(x) + (1 - T(x)) x (Srivastava et al. 2015): T is the gate, H the transform."""

    dtype: Any

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        project = lambda name: Dense(x.shape[-1], ("embed", "mlp"), self.dtype, name=name)(x)
        gate, transform = nn.sigmoid(project("gate")), nn.relu(project("transform"))
        return x + gate * (transform - x)


def vectors(
    module: nn.Module, name: str, rows: int, dim: int, std: float
) -> Float[Array | np.ndarray, "V D"]:
    """The parameter `name`, a table of trained vectors with a normal initial distribution."""
    init = named(nn.initializers.normal(std), ("vocab", "embed"))
    return gathered(module.param(name, init, (rows, dim)), "vocab", "embed")


class Embedding(nn.Module):
    """[x_w; x_c] through a two-layer highway network (section 2.2, layer 1).

    x_w is the word's fixed vector, with one trained vector for all unknown words, or its trained
    vector. x_c is the maximum over the word's characters of a convolution of their vectors, or of
    the vectors; padding characters are excluded.

    Attributes:
      config: dimension and rows of both tables of vectors.
      char_dim: p2, size of a character's vector.
      char_pooling: whether x_c pools the "convolution", or the vectors ("max").
      char_kernel: width of the convolution.
      std: standard deviation of the initial trained vectors.
      word_dropout, char_dropout: rates on word vectors and on characters' vectors.
    """

    config: WordsConfig
    char_dim: int
    char_pooling: Literal["convolution", "max"]
    char_kernel: int
    std: float
    word_dropout: float
    char_dropout: float
    dtype: Any

    @nn.compact
    def __call__(self, words: Words, *, train: bool) -> Float[Array, "B T P"]:
        x_w = Dropout(self.word_dropout)(self._word(words), train=train)
        x = jnp.concatenate([x_w.astype(self.dtype), self._characters(words, train)], axis=-1)
        x = Highway(self.dtype, name="highway_0")(x)
        return Highway(self.dtype, name="highway_1")(x)

    def _word(self, words: Words) -> Float[Array, "B T P"]:
        config = self.config
        if words.vectors is None:
            table = vectors(self, "word_embedding", config.rows, config.dim, self.std)
            return spread(jnp.take(table, words.ids, axis=0))
        normal = nn.initializers.normal(self.std)
        unknown = self.param("unknown_word_embedding", normal, (config.dim,))
        known = jnp.where(words.valid[..., None], words.vectors, 0)
        return jnp.where((words.ids == UNKNOWN)[..., None], unknown[None, None], known)

    def _characters(self, words: Words, train: bool) -> Float[Array, "B T C"]:
        valid = (words.characters != 0)[..., None]
        rows, dim = self.config.char_rows, self.char_dim
        table = vectors(self, "character_embedding", rows, dim, self.std).astype(self.dtype)
        sizes, name = (self.char_dim, self.char_kernel, self.dtype), "character_convolution"
        # Without dropout equal characters have equal vectors; faster on a CPU alone.
        if self.char_pooling == "convolution" and not train and platform() == "cpu":
            x = nn.relu(TableConvolution(*sizes, name=name)(table, words.characters))
        else:
            x = spread(jnp.take(table, words.characters, axis=0))
            x = Dropout(self.char_dropout)(jnp.where(valid, x, 0), train=train)
            if self.char_pooling == "convolution":
                x = nn.relu(Convolution(*sizes, name=name)(x))
        maxima = jnp.where(valid, x, float(jnp.finfo(self.dtype).min)).max(axis=-2)
        return jnp.where(valid.any(axis=-2), maxima, 0)


class ContextQueryAttention(nn.Module):
    """[c, a, c * a, c * b] (section 2.2, layers 3 and 4) from the trilinear similarity.

    S_ij = w_c . c_i + w_q . q_j + (w_m * c_i) . q_j, computed without an [N, M, 3 D] array;
    A = S_row Q and B = S_row (S_col^T C), with the product in parentheses first. S_row is the
    softmax over the question's words, S_col over the context's; padding is excluded from both.
    """

    dtype: Any

    @nn.compact
    def __call__(
        self,
        context: Float[Array, "B N D"],
        question: Float[Array, "B M D"],
        context_valid: Bool[Array, "B N"],
        question_valid: Bool[Array, "B M"],
    ) -> Float[Array, "B N 4*D"]:
        dim = context.shape[-1]
        weights = self.param("similarity", named(_scaled_product, (None, "embed")), (3, dim))
        similarity = trilinear(context, question, weights.astype(self.dtype))
        row = masked_softmax(similarity, question_valid[:, None, :]).astype(self.dtype)
        self.sow(ATTENTION, "row", row)
        column = masked_softmax(similarity, context_valid[:, :, None], axis=1).astype(self.dtype)
        to_question = _product("bnm,bmd->bnd", row, question).astype(self.dtype)
        summary = _product("bnm,bnd->bmd", column, context).astype(self.dtype)
        back = _product("bnm,bmd->bnd", row, summary).astype(self.dtype)
        return jnp.concatenate(
            [context, to_question, context * to_question, context * back], axis=-1
        )


def trilinear(
    context: Float[Array, "B N D"],
    question: Float[Array, "B M D"],
    weights: Float[Array | np.ndarray, "3 D"],
) -> Float[Array, "B N M"]:
    """w_c . c_i + w_q . q_j + (w_m * c_i) . q_j, in float32."""
    w_c, w_q, w_m = weights
    return (
        _product("bnd,d->bn", context, w_c)[:, :, None]
        + _product("bmd,d->bm", question, w_q)[:, None, :]
        + _product("bnd,bmd->bnm", context * w_m[None, None], question)
    )


def _scaled_product(key: Array, shape: tuple[int, int], dtype: Any = jnp.float32) -> Array:
    """Initial w_c, w_q and w_m that make S the scaled dot product, q . c / sqrt(D), so that equal
    words of context and question are similar from the start."""
    rows = jnp.array([0, 0, shape[1] ** -0.5], dtype)
    return jnp.broadcast_to(rows[:, None], shape)
