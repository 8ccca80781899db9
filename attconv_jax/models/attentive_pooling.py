"""Attentive pooling: ABCNN and APCNN as compared by Yin & Schütze (2017, Tables 3 and 5).

The bi-CNN with weighted means instead of max-pooling. With H_x and H_y the states of the texts,
A = H_x H_y^T (ABCNN) or tanh(H_x U H_y^T) (APCNN, dos Santos et al. 2016):

    r_x = sum_i softmax_i(max_j A_ij) h_i, and r_y accordingly.

Yin et al.'s (2016) ABCNN is another model, attconv_jax.models.abcnn.
"""

import dataclasses
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.models.base import (
    POOLED,
    AttendingModule,
    AttentionMap,
    Explained,
    Text,
    network_of,
)
from attconv_jax.models.bi_cnn import BiCNN, BiCNNModule
from common_jax.layers import Dense
from common_jax.masks import MASKED, masked_softmax
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class AttentivePooling(BiCNN):
    """The bi-CNN with attention in pooling.

    Attributes:
      bilinear: whether A has APCNN's U and tanh.
    """

    needs_pairs = True
    bilinear: bool = False


@network_of(AttentivePooling)
class AttentivePoolingModule(AttendingModule, BiCNNModule):
    """The network."""

    config: AttentivePooling

    def setup(self):
        super().setup()
        if self.config.bilinear:
            self.energy = Dense(self.config.dim, ("embed", "mlp"), self.dtype, use_bias=False)

    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the weights of each text's mean."""
        valid = [text.valid for text in texts]
        with scope("attention"):
            # H_x and H_y
            states = self._states(texts, train)
            first, second = states

            # A
            first = self.energy(first) if self.config.bilinear else first
            energies = jnp.einsum("btd,bsd->bts", first, second, preferred_element_type=jnp.float32)
            if self.config.bilinear:
                energies = jnp.tanh(energies)

            # r_x and r_y
            to_second = _by_best(energies, valid[0], valid[1])
            to_first = _by_best(jnp.swapaxes(energies, 1, 2), valid[1], valid[0])
            weights = (to_second, to_first)
            pooled = [
                jnp.einsum("bt,btd->bd", text_weights.astype(self.dtype), x)
                for text_weights, x in zip(weights, states, strict=True)
            ]
        maps = [AttentionMap(POOLED, n, shares[:, None]) for n, shares in enumerate(weights)]
        return self.head(pooled, train=train), [maps]


def _by_best(
    energies: Float[Array, "B T S"], valid: Bool[Array, "B T"], other_valid: Bool[Array, "B S"]
) -> Float[Array, "B T"]:
    """The softmax over a text's words of their largest energies with a word of the other text."""
    best = jnp.where(other_valid[:, None], energies, MASKED).max(-1)
    return masked_softmax(best, valid & other_valid.any(-1, keepdims=True))
