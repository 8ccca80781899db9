"""Neural semantic encoder (Munkhdalai & Yu 2017), with a memory for each text.

The memory M is initialized with the word vectors of the text. For each word x_t:

    o = LSTM(x_t),  z = softmax(M o),  m = M^T z
    h = LSTM(W [o; m] + b),  M <- M (1 - z) + z h

Both texts share the parameters. With p and h the last states of premise and hypothesis, a ReLU
layer and a softmax follow [p; h; p - h; p * h]. The states are as wide as the word vectors.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array

from attconv_jax.layers import ReluLayers, matrix
from attconv_jax.models.base import (
    AttendingModule,
    AttentionMap,
    Explained,
    PairModel,
    Text,
    network_of,
)
from common_jax.fields import rate, size
from common_jax.layers import Dropout
from common_jax.masks import masked_softmax
from common_jax.recurrent import LSTM, kept
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class NSE(PairModel):
    """Neural semantic encoders of two texts.

    Attributes:
      hidden: size of the ReLU layer.
      dropout: rate on words and on the input of the ReLU layer.
    """

    needs_pairs = True
    hidden: int = size(1024)
    dropout: float = rate(0.3)


@network_of(NSE)
class NSEModule(AttendingModule):
    """The network."""

    config: NSE

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and the weights with which each word reads the memory."""
        dim = texts[0].words.shape[-1]
        dropout = Dropout(self.config.dropout)

        # the parameters, before the loop
        read = LSTM(dim, dim, self.dtype, name="read")
        write = LSTM(2 * dim, dim, self.dtype, name="write")
        compose = matrix(self, "compose", 2 * dim, 2 * dim)
        bias = self.param("compose_bias", nn.initializers.zeros, (2 * dim,))
        recurrent = write.weights()

        def step(valid: Array, carry: Any, inputs: tuple[Array, Array]) -> Any:
            memory, state = carry
            o, is_word = inputs

            # z and m
            z = masked_softmax(jnp.einsum("bsd,bd->bs", memory, o), valid)
            m = jnp.einsum("bs,bsd->bd", z, memory)

            # h, and the new memory
            composed = jnp.concatenate([o, m], -1) @ compose + bias[None]
            new = write.step(state, write.project(composed), recurrent)
            share = z[..., None]
            written = memory * (1 - share) + share * new.hidden[:, None]
            return kept(is_word, (written, new), carry), kept(is_word, z, 0)

        # all words of each text, in order
        last = []
        maps = []
        with scope("attention"):
            for number, text in enumerate(texts):
                words = dropout(text.words, train=train)
                o, _ = read(words, text.valid)
                steps = (jnp.swapaxes(o, 0, 1), jnp.swapaxes(text.valid, 0, 1))
                first = (words.astype(jnp.float32), write.start(words))
                of_text = functools.partial(step, text.valid)
                (_, state), weights = jax.lax.scan(of_text, first, steps)
                last.append(state.hidden)
                maps.append(AttentionMap(number, number, jnp.swapaxes(weights, 0, 1)))

        with scope("head"):
            p, h = last
            joined = jnp.concatenate([p, h, p - h, p * h], -1)
            sizes = (self.config.hidden,)
            layers = ReluLayers(sizes, self.config.dropout, self.dtype, name="hidden")
            logits = self._output(layers(joined, train=train))
        return logits, [maps]
