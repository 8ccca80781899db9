"""Layers shared by readers: inputs, highway layers, context-query attention.

Dims beside the legend of `common_jax.masks`: N words of the context, M of the question, W
characters of a word.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from common_jax.layers import Dense
from common_jax.masks import masked_softmax
from common_jax.pytrees import pytree
from common_jax.sharding import gathered

named = nn.with_logical_partitioning
ATTENTION = "intermediates"  # the collection of a reader's context-query attention [B, N, M]
_product = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


@pytree()
class Words:
    """A batch of texts.

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
        size = x.shape[-1]
        gate = nn.sigmoid(Dense(size, ("embed", "mlp"), self.dtype, name="gate")(x))
        transform = nn.relu(Dense(size, ("embed", "mlp"), self.dtype, name="transform")(x))
        return x + gate * (transform - x)


def vectors(
    module: nn.Module, name: str, rows: int, dim: int, std: float
) -> Float[Array | np.ndarray, "V D"]:
    """The parameter `name`, a table of trained vectors with a normal initial distribution."""
    init = named(nn.initializers.normal(std), ("vocab", "embed"))
    return gathered(module.param(name, init, (rows, dim)), "vocab", "embed")


class ContextQueryAttention(nn.Module):
    """[c, a, c * a, c * b] (section 2.2, layers 3 and 4) from the trilinear similarity.

    S_ij = w_c . c_i + w_q . q_j + (w_m * c_i) . q_j, computed without an [N, M, 3 D] array;
    A = S_row Q and B = S_row (S_col^T C), with the product in parentheses first. S_row is the
    softmax over the question's words, S_col over the context's; padding is excluded from both.

    Attributes:
      query_to_context: whether the output has c * b.
    """

    dtype: Any
    query_to_context: bool = True

    @nn.compact
    def __call__(
        self,
        context: Float[Array, "B N D"],
        question: Float[Array, "B M D"],
        context_valid: Bool[Array, "B N"],
        question_valid: Bool[Array, "B M"],
    ) -> Float[Array, "B N F"]:
        dim = context.shape[-1]
        weights = self.param("similarity", named(_scaled_product, (None, "embed")), (3, dim))
        similarity = trilinear(context, question, weights.astype(self.dtype))

        # S_row and S_col
        row = masked_softmax(similarity, question_valid[:, None, :]).astype(self.dtype)
        self.sow(ATTENTION, "row", row)
        column = masked_softmax(similarity, context_valid[:, :, None], axis=1).astype(self.dtype)

        # A and B
        attended = [_product("bnm,bmd->bnd", row, question).astype(self.dtype)]
        if self.query_to_context:
            summary = _product("bnm,bnd->bmd", column, context).astype(self.dtype)
            attended.append(_product("bnm,bmd->bnd", row, summary).astype(self.dtype))
        products = (context * vectors for vectors in attended)
        return jnp.concatenate([context, attended[0], *products], axis=-1)


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
    """Initializer of w_c, w_q and w_m that makes S the scaled dot product q . c / sqrt(D), so that
    equal words are similar from the start."""
    rows = jnp.array([0, 0, shape[1] ** -0.5], dtype)
    return jnp.broadcast_to(rows[:, None], shape)
