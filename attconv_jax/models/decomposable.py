"""Decomposable attention (Parikh et al. 2016), without and with attention within each text.

Words are projected to a_i and b_j, without a bias; F, G and H have two ReLU layers each:

    e_ij = F(a_i) . F(b_j)
    beta_i = sum_j softmax_j(e_ij) b_j,  alpha_j = sum_i softmax_i(e_ij) a_i
    v1 = sum_i G([a_i; beta_i]),  v2 = sum_j G([b_j; alpha_j]),  logits = W H([v1; v2])

Within a text, a'_i = sum_j softmax_j(F'(a_i) . F'(a_j) + d_(i-j)) a_j, and [a; a'] replaces a;
distances of more than 10 words share one d. Word vectors are scaled to norm 1, since longer ones
saturate the softmax, and an empty word, whose vector is 0 here, is prepended to each text.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.layers import ReluLayers, both_ways
from attconv_jax.models.base import (
    AttendingModule,
    AttentionMap,
    Explained,
    PairModel,
    Text,
    network_of,
)
from common_jax.fields import rate, size
from common_jax.layers import Dense
from common_jax.masks import masked_softmax
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class Decomposable(PairModel):
    """Decomposable attention between two texts.

    Attributes:
      dim: width of all layers.
      intra: whether there is attention within each text.
      most_distance: in words; larger distances share a bias.
      unit_vectors: scales word vectors to norm 1.
      dropout: rate on the inputs of the layers of F, G and H.
    """

    needs_pairs = True
    dim: int = size(200)
    intra: bool = False
    most_distance: int = size(10, least=0)
    unit_vectors: bool = True
    dropout: float = rate(0.2)


@network_of(Decomposable)
class DecomposableModule(AttendingModule):
    """The network."""

    config: Decomposable

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the attention between the texts without the empty words."""
        config = self.config

        # a and b, also with attention within the text
        words, valid = zip(*map(self._with_empty_word, texts), strict=True)
        project = Dense(config.dim, ("embed", "mlp"), self.dtype, use_bias=False, name="project")
        states = [project(text) for text in words]
        if config.intra:
            attend_within = self._layers("attend_within")
            within = WithinText(config.most_distance, self.dtype, name="within")
            states = [
                within(attend_within(x, train=train), x, real)
                for x, real in zip(states, valid, strict=True)
            ]

        # e, beta and alpha
        attend = self._layers("attend")
        with scope("attention"):
            first, second = (attend(x, train=train) for x in states)
            energies = jnp.einsum("btd,bsd->bts", first, second, preferred_element_type=jnp.float32)
            weights = both_ways(energies, *valid)
            contexts = [
                jnp.einsum("bts,bsd->btd", text_weights.astype(self.dtype), other)
                for text_weights, other in zip(weights, reversed(states), strict=True)
            ]

        # v1 and v2
        compare = self._layers("compare")
        sums = []
        for x, context, real in zip(states, contexts, valid, strict=True):
            compared = compare(jnp.concatenate([x, context], -1), train=train)
            sums.append(jnp.where(real[..., None], compared, 0).sum(1))

        aggregate = self._layers("aggregate")
        with scope("head"):
            logits = self._output(aggregate(jnp.concatenate(sums, -1), train=train))
        maps = [
            AttentionMap(n, 1 - n, text_weights[:, 1:, 1:])
            for n, text_weights in enumerate(weights)
        ]
        return logits, [maps]

    def _layers(self, name: str) -> ReluLayers:
        """F, G or H."""
        config = self.config
        return ReluLayers((config.dim,) * 2, config.dropout, self.dtype, name=name)

    def _with_empty_word(self, text: Text) -> tuple[Float[Array, "B U D"], Bool[Array, "B U"]]:
        words = text.words
        if self.config.unit_vectors:
            square = jnp.sum(jnp.square(words.astype(jnp.float32)), -1, keepdims=True)
            norm = jnp.sqrt(jnp.where(square > 0, square, 1.0))
            words = (words.astype(jnp.float32) / norm).astype(words.dtype)
        front = ((0, 0), (1, 0))
        return jnp.pad(words, (*front, (0, 0))), jnp.pad(text.valid, front, constant_values=True)


class WithinText(nn.Module):
    """[a; a'] of a text: a' is attention within the text, with a bias for each distance."""

    most_distance: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        projected: Float[Array, "B T D"],
        states: Float[Array, "B T D"],
        valid: Bool[Array, "B T"],
    ) -> Float[Array, "B T E"]:
        # d of each pair of words
        most = self.most_distance
        positions = jnp.arange(states.shape[1])
        bias = self.param("distance", nn.initializers.zeros, (2 * most + 2,))
        offset = positions[None, :] - positions[:, None]
        index = jnp.where(jnp.abs(offset) <= most, offset + most, 2 * most + 1)

        # a'
        energies = jnp.einsum(
            "btd,bsd->bts", projected, projected, preferred_element_type=jnp.float32
        )
        allowed = valid[:, :, None] & valid[:, None]
        weights = masked_softmax(energies + jnp.asarray(bias)[index][None], allowed)
        context = jnp.einsum("bts,bsd->btd", weights.astype(self.dtype), states)
        return jnp.concatenate([states, context], -1)
