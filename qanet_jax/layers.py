"""QANet's layers: words from vectors and characters, the encoder, context-query attention.

Legend beside the house's (`common_jax.masks`): N words of the context, M of the question, W
characters of a word.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from common_jax.dropout import drop, survivors
from common_jax.layers import (
    DROPOUT,
    Convolution,
    Dropout,
    LayerNorm,
    MultiHeadAttention,
    Stack,
    dense,
    shifted,
    sinusoids,
)
from common_jax.masks import masked_softmax, padding
from common_jax.pytrees import pytree
from common_jax.text.lexicon import UNKNOWN
from qanet_jax.config import ModelConfig

named = nn.with_logical_partitioning


@pytree()
class Words:
    """A batch of texts as the model reads them.

    Attributes:
      ids: 0 is padding, `lexicon.UNKNOWN` a word without a vector.
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


class SeparableConvolution(nn.Module):
    """Each channel has a filter of its own, then a product mixes the channels (Chollet 2016)."""

    size: int
    width: int
    dtype: Any

    @nn.compact
    def __call__(self, x: Float[Array, "B T D"]) -> Float[Array, "B T {self.size}"]:
        uniform = nn.initializers.variance_scaling(1.0, "fan_in", "uniform", 0, 1)
        shape = (self.width, x.shape[-1])
        filters = self.param("filters", named(uniform, (None, "embed")), shape)
        filtered = depthwise(x.astype(self.dtype), filters.astype(self.dtype))
        return dense(self.size, ("embed", "mlp"), self.dtype)(filtered)


@jax.custom_vjp
def depthwise(x: Float[Array, "B T D"], filters: Float[Array, "W D"]) -> Float[Array, "B T D"]:
    """Each channel's convolution with its own filter, with zeros beyond the ends.

    The backward pass keeps x, and not each of the W shifted ones.
    """
    return sum(x * filters[at, None, None] for at, x in enumerate(shifted(x, len(filters))))


def _depthwise_backward(kept, cotangent):
    x, filters = kept
    places = shifted(x, len(filters))
    own = [jnp.sum(x * cotangent, axis=(0, 1), dtype=jnp.float32) for x in places]
    return depthwise(cotangent, filters[::-1]), jnp.stack(own).astype(filters.dtype)


depthwise.defvjp(lambda x, filters: (depthwise(x, filters), (x, filters)), _depthwise_backward)


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
        normal = nn.initializers.normal(self.config.embedding_std)
        if words.vectors is None:
            shape = (self.config.word_rows, self.config.word_dim)
            table = self.param("words", named(normal, ("vocab", "embed")), shape)
            return jnp.take(table, words.ids, axis=0)
        unknown = self.param("unknown", normal, (self.config.word_dim,))
        vectors = jnp.where(words.valid[..., None], words.vectors, 0)
        return jnp.where((words.ids == UNKNOWN)[..., None], unknown[None, None], vectors)

    def _characters(self, words: Words, train: bool) -> Float[Array, "B T C"]:
        config, valid = self.config, (words.characters != 0)[..., None]
        normal = nn.initializers.normal(config.embedding_std)
        shape = (config.char_rows, config.char_dim)
        table = self.param("characters", named(normal, ("vocab", "embed")), shape)
        x = jnp.take(table.astype(self.dtype), words.characters, axis=0)
        x = Dropout(config.char_dropout)(jnp.where(valid, x, 0), train=train)
        if config.characters == "convolution":
            x = nn.relu(Convolution(config.char_dim, config.char_kernel, self.dtype)(x))
        most = jnp.where(valid, x, float(jnp.finfo(self.dtype).min)).max(axis=-2)
        return jnp.where(valid.any(axis=-2), most, 0)


class EncoderBlock(nn.Module):
    """[convolution x # + self-attention + feed-forward] (Figure 1, right).

    Every sub-layer f is x + f(layernorm(x)), with dropout on f.

    Attributes:
      convs, kernel: how many convolutions, and their width.
    """

    config: ModelConfig
    convs: int
    kernel: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B T D"],
        valid: Bool[Array, "B T"],
        positions: Float[Array, "T D"],
        present: Bool[Array, "S"] | None = None,
        *,
        train: bool,
    ) -> Float[Array, "B T D"]:
        """
        Args:
          x: the block's input.
          valid: which places hold a word; what stands in the others changes nothing.
          positions: encodings, added here if that is each block's business.
          present: which of the block's sub-layers are not left out; None leaves out none.
        """
        config, sublayers = self.config, [*self._sublayers(valid, train)]
        if config.positions == "block":
            x = x + positions.astype(x.dtype)[None]
        dropped = train and config.dropout > 0
        if dropped:  # one draw for all sub-layers: it is most of the time that a block compiles
            shape = (len(x), len(sublayers), *x.shape[1:])
            kept = survivors(config.dropout, self.make_rng(DROPOUT), shape)
        for number, sublayer in enumerate(sublayers):
            y = sublayer(LayerNorm()(x))
            if dropped:
                y = drop(y, config.dropout, kept[:, number])
            x = x + (y if present is None else jnp.where(present[number], y, 0))
        return x

    def _sublayers(self, valid: Array, train: bool):
        config = self.config
        if config.convolution != "none":
            kind = SeparableConvolution if config.convolution == "separable" else Convolution
            for _ in range(self.convs):
                convolution = kind(config.dim, self.kernel, self.dtype)
                yield lambda y, f=convolution: nn.relu(f(jnp.where(valid[..., None], y, 0)))
        if config.self_attention:
            attention = MultiHeadAttention(
                config.dim, config.num_heads, dtype=self.dtype, implementation=config.attention
            )
            yield lambda y: attention(y, y, padding(valid), train=train)
        inner = dense(config.feed_forward_factor * config.dim, ("embed", "mlp"), self.dtype)
        outer = dense(config.dim, ("mlp", "embed"), self.dtype)
        yield lambda y: outer(nn.relu(inner(y)))


class Encoder(nn.Module):
    """A stack of equal encoder blocks; "encoder layer" in the paper.

    In training the l-th of a stack's L sub-layers is left out with probability (1 - p_L) l / L
    (stochastic depth, Huang et al. 2016; one draw for the whole batch, and no scaling otherwise, as
    in the authors' code).
    """

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
        block = lambda: EncoderBlock(config, self.convs, self.kernel, self.dtype, parent=None)
        positions = jnp.asarray(sinusoids(x.shape[1], config.dim))
        if config.positions == "once":
            x = x + positions.astype(x.dtype)[None]
        each = (self._present(),) if train and config.survival < 1 else ()
        stack = Stack(block, self.blocks, remat=config.remat)
        x = stack(x, [(self.blocks, (valid, positions))], train=train, each=each)
        return LayerNorm(name="norm")(x) if config.final_norm else x

    def _present(self) -> Bool[Array, "L S"]:
        """Draws which sub-layers of each block are not left out."""
        config = self.config
        each = (config.convolution != "none") * self.convs + config.self_attention + 1
        depth = 1 + np.arange(self.blocks * each).reshape(self.blocks, each)
        survival = 1 - depth / depth.size * (1 - config.survival)
        return jax.random.bernoulli(self.make_rng(DROPOUT), survival.astype(np.float32))


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
        weights = self.param("similarity", named(_scaled_product, (None, "embed")), (3, dim))
        w_c, w_q, w_m = weights.astype(self.dtype)
        product = lambda equation, *arrays: jnp.einsum(
            equation, *arrays, preferred_element_type=jnp.float32
        )
        similarity = (
            product("bnd,d->bn", context, w_c)[:, :, None]
            + product("bmd,d->bm", question, w_q)[:, None, :]
            + product("bnd,bmd->bnm", context * w_m[None, None], question)
        )
        row = masked_softmax(similarity, question_valid[:, None, :]).astype(self.dtype)
        column = masked_softmax(similarity, context_valid[:, :, None], axis=1).astype(self.dtype)
        to_question = product("bnm,bmd->bnd", row, question).astype(self.dtype)
        summary = product("bnm,bnd->bmd", column, context).astype(self.dtype)
        back = product("bnm,bmd->bnd", row, summary).astype(self.dtype)
        return jnp.concatenate(
            [context, to_question, context * to_question, context * back], axis=-1
        )


def _scaled_product(key: Array, shape: tuple[int, int], dtype: Any = jnp.float32) -> Array:
    """w_c, w_q and w_m that make S the scaled dot product, q . c / sqrt(D): a word of the question
    is like the same word of the context from the start."""
    rows = jnp.array([0, 0, shape[1] ** -0.5], dtype)
    return jnp.broadcast_to(rows[:, None], shape)
