"""QANet's layers: words from vectors and characters, the encoder, context-query attention.

Legend beside the house's (`common_jax.masks`): N words of the context, M of the question, W
characters of a word.
"""

from typing import Any

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from common_jax.attention.dense import MASKED
from common_jax.layers import (
    DROPOUT,
    Dropout,
    LayerNorm,
    MultiHeadAttention,
    Stack,
    dense,
    sinusoids,
)
from common_jax.masks import padding
from qanet_jax.config import ModelConfig

UNKNOWN = 1  # the id of a word, or a character, that the vocabulary lacks; 0 is padding

named = nn.with_logical_partitioning


@flax.struct.dataclass
class Words:
    """A batch of texts as the model reads them.

    Attributes:
      ids: 0 is padding, `UNKNOWN` a word without a vector.
      characters: of each word, 0 behind its end.
      vectors: the words' fixed vectors, zeros for unknown ones; None where they are trained.
    """

    ids: Int[Array, "B T"]
    characters: Int[Array, "B T W"]
    vectors: Float[Array, "B T P"] | None = None

    @property
    def valid(self) -> Bool[Array, "B T"]:
        """Which places hold a word."""
        return self.ids != 0


class Convolution(nn.Module):
    """A convolution along the last axis but one, with zeros beyond the ends, and a ReLU.

    Separable (Chollet 2016): each channel has a filter of its own, then a product mixes channels.
    Both kinds are written as sums over `kernel` shifted inputs: XLA's own convolutions of many
    short or grouped inputs are several times slower on a CPU.
    """

    size: int
    kernel: int
    separable: bool
    dtype: Any

    @nn.compact
    def __call__(self, x: Float[Array, "*b T D"]) -> Float[Array, "*b T {self.size}"]:
        dim, half, x = x.shape[-1], self.kernel // 2, x.astype(self.dtype)
        padded = jnp.pad(x, [*[(0, 0)] * (x.ndim - 2), (half, half), (0, 0)])
        shifted = [padded[..., at : at + x.shape[-2], :] for at in range(self.kernel)]
        if self.separable:
            uniform = nn.initializers.variance_scaling(1.0, "fan_in", "uniform", 0, 1)
            filters = self.param("filters", named(uniform, (None, "embed")), (self.kernel, dim))
            filters = filters.astype(self.dtype).reshape(self.kernel, *(1,) * (x.ndim - 1), dim)
            filtered = sum(part * filters[at] for at, part in enumerate(shifted))
            return nn.relu(dense(self.size, ("embed", "mlp"), self.dtype)(filtered))
        glorot = named(nn.initializers.xavier_uniform(), (None, "embed", "mlp"))
        filters = self.param("filters", glorot, (self.kernel, dim, self.size)).astype(self.dtype)
        bias = self.param("bias", named(nn.initializers.zeros, ("mlp",)), (self.size,))
        mixed = sum(part @ filters[at] for at, part in enumerate(shifted))
        return nn.relu(mixed + bias.astype(self.dtype).reshape(*(1,) * (x.ndim - 1), self.size))


class Embedding(nn.Module):
    """[x_w; x_c] through a two-layer highway network (section 2.2, layer 1).

    x_w is the word's fixed vector, with one trained row for all unknown words, or a trained one.
    x_c is the maximum over the word's characters, of a convolution of their vectors or of the
    vectors themselves; what pads a word to W characters takes no part.
    """

    config: ModelConfig
    dtype: Any

    @nn.compact
    def __call__(self, words: Words, *, train: bool) -> Float[Array, "B T P"]:
        config = self.config
        x_w = Dropout(config.word_dropout)(self._word(words), train=train)
        x = jnp.concatenate([x_w.astype(self.dtype), self._characters(words, train)], axis=-1)
        for _ in range(2):  # T(x) H(x) + (1 - T(x)) x (Srivastava et al. 2015)
            gate = nn.sigmoid(dense(x.shape[-1], ("embed", "mlp"), self.dtype)(x))
            change = nn.relu(dense(x.shape[-1], ("embed", "mlp"), self.dtype)(x))
            x = x + gate * (change - x)
        return x

    def _word(self, words: Words) -> Float[Array, "B T P"]:
        normal = nn.initializers.normal(0.1)
        if words.vectors is None:
            shape = (self.config.word_rows, self.config.word_dim)
            table = self.param("words", named(normal, ("vocab", "embed")), shape)
            return jnp.take(table, words.ids, axis=0)
        unknown = self.param("unknown", normal, (self.config.word_dim,))
        vectors = jnp.where(words.valid[..., None], words.vectors, 0)
        return jnp.where((words.ids == UNKNOWN)[..., None], unknown[None, None], vectors)

    def _characters(self, words: Words, train: bool) -> Float[Array, "B T C"]:
        config, valid = self.config, (words.characters != 0)[..., None]
        shape = (config.char_rows, config.char_dim)
        table = self.param(
            "characters", named(nn.initializers.normal(0.1), ("vocab", "embed")), shape
        )
        x = jnp.take(table.astype(self.dtype), words.characters, axis=0)
        x = Dropout(config.char_dropout)(jnp.where(valid, x, 0), train=train)
        if config.characters == "convolution":
            x = Convolution(config.char_dim, config.char_kernel, separable=False, dtype=self.dtype)(
                x
            )
        most = jnp.where(valid, x, float(jnp.finfo(self.dtype).min)).max(axis=-2)
        return jnp.where(valid.any(axis=-2), most, 0)


class EncoderBlock(nn.Module):
    """[convolution x # + self-attention + feed-forward] (Figure 1, right).

    Every sub-layer f is x + f(layernorm(x)), with dropout on f. In training the l-th of a stack's L
    sub-layers is left out with probability (1 - p_L) l / L (stochastic depth, Huang et al. 2016;
    one draw for the whole batch, and no scaling otherwise, as in the authors' code).

    Attributes:
      convs, kernel: how many convolutions, and their width.
      sublayers: L.
    """

    config: ModelConfig
    convs: int
    kernel: int
    sublayers: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B T D"],
        valid: Bool[Array, "B T"],
        positions: Float[Array, "T D"],
        first: Int[Array, ""],
        *,
        train: bool,
    ) -> Float[Array, "B T D"]:
        """
        Args:
          x: the block's input.
          valid: which places hold a word; what stands in the others changes nothing.
          positions: encodings, added here if that is each block's business.
          first: how many of the stack's sub-layers come before this block's.
        """
        config = self.config
        if config.positions == "block":
            x = x + positions.astype(x.dtype)[None]
        for number, sublayer in enumerate(self._sublayers(valid, train), start=1):
            y = Dropout(config.dropout)(sublayer(LayerNorm()(x)), train=train)
            if train and config.survival < 1:
                survival = 1 - (first + number) / self.sublayers * (1 - config.survival)
                y = jnp.where(jax.random.bernoulli(self.make_rng(DROPOUT), survival), y, 0)
            x = x + y
        return x

    def _sublayers(self, valid: Array, train: bool):
        config = self.config
        if config.convolution != "none":
            separable = config.convolution == "separable"
            for _ in range(self.convs):
                convolution = Convolution(config.dim, self.kernel, separable, self.dtype)
                yield lambda y, f=convolution: f(jnp.where(valid[..., None], y, 0))
        if config.self_attention:
            attention = MultiHeadAttention(
                config.dim, config.num_heads, dtype=self.dtype, recompute=True
            )
            yield lambda y: attention(y, y, padding(valid), train=train)
        inner = dense(config.feed_forward_factor * config.dim, ("embed", "mlp"), self.dtype)
        outer = dense(config.dim, ("mlp", "embed"), self.dtype)
        yield lambda y: outer(nn.relu(inner(y)))


class Encoder(nn.Module):
    """A stack of equal encoder blocks; "encoder layer" in the paper."""

    config: ModelConfig
    blocks: int
    convs: int
    kernel: int
    dtype: Any

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], valid: Bool[Array, "B T"], *, train: bool
    ) -> Float[Array, "B T D"]:
        config = self.config
        each = (config.convolution != "none") * self.convs + config.self_attention + 1
        block = lambda: EncoderBlock(
            config, self.convs, self.kernel, self.blocks * each, self.dtype, parent=None
        )
        positions = jnp.asarray(sinusoids(x.shape[1], config.dim))
        if config.positions == "once":
            x = x + positions.astype(x.dtype)[None]
        stack = Stack(block, self.blocks, remat=config.remat)
        first = each * jnp.arange(self.blocks)
        return stack(x, [(self.blocks, (valid, positions))], train=train, each=(first,))


class ContextQueryAttention(nn.Module):
    """[c, a, c * a, c * b] (section 2.2, layers 3 and 4) from the trilinear similarity.

    S_ij = w_c . c_i + w_q . q_j + (w_m * c_i) . q_j, without ever an [N, M, 3 D] array;
    A = S_row Q and B = S_row (S_col^T C), the product on the right first. S_row is the softmax over
    the question's words, S_col over the context's; padding takes no part in either.
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
        init = nn.initializers.variance_scaling(1.0, "fan_avg", "uniform", 1, 0)
        weights = self.param("similarity", named(init, (None, "embed")), (3, dim))
        w_c, w_q, w_m = weights.astype(self.dtype)
        product = lambda equation, *arrays: jnp.einsum(
            equation, *arrays, preferred_element_type=jnp.float32
        )
        similarity = (
            product("bnd,d->bn", context, w_c)[:, :, None]
            + product("bmd,d->bm", question, w_q)[:, None, :]
            + product("bnd,bmd->bnm", context * w_m[None, None], question)
        )
        row = _softmax(similarity, question_valid[:, None, :], 2).astype(self.dtype)
        column = _softmax(similarity, context_valid[:, :, None], 1).astype(self.dtype)
        to_question = product("bnm,bmd->bnd", row, question).astype(self.dtype)
        summary = product("bnm,bnd->bmd", column, context).astype(self.dtype)
        back = product("bnm,bmd->bnd", row, summary).astype(self.dtype)
        return jnp.concatenate(
            [context, to_question, context * to_question, context * back], axis=-1
        )


def _softmax(x: Float[Array, "B N M"], valid: Bool[Array, "B n m"], axis: int) -> Array:
    """Over the valid entries of an axis; zeros where none is."""
    return jnp.where(valid, jax.nn.softmax(jnp.where(valid, x, MASKED), axis=axis), 0)
