"""Paragraph vectors (Le & Mikolov 2014), distributed bag of words, with a softmax over labels.

The vector d of a text with the words w_1 to w_n minimizes

    L(d) = (1/n) sum_t -log softmax(V d + b)[w_t] + decay/2 |d|^2,

where V are the word vectors. d is computed by a fixed number of Adam steps from 0; L is convex in
d. Training minimizes L in V and b at this d, and fits a softmax over the labels to d. No gradient
passes through d, so that the labels do not change the word vectors.

Ours: a text's vector is inferred at each step, in training as in evaluation, and not stored; the
softmax over the vocabulary is exact, as all words of a text share it.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from attconv_jax.models.base import Losses, PairModel, PairModule, Text, network_of
from common_jax import fields
from common_jax.layers import Dropout
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class ParagraphVector(PairModel):
    """Vectors of texts, as wide as those of words.

    Attributes:
      steps: number of Adam steps of inference.
      rate: learning rate of inference.
      decay: weight decay of texts' vectors.
      dropout: rate on texts' vectors before the softmax over labels.
    """

    steps: int = fields.size(20)
    rate: float = fields.positive(0.2)
    decay: float = fields.not_negative(1e-3)
    dropout: float = fields.rate(0.0)


@network_of(ParagraphVector)
class ParagraphVectorModule(PairModule):
    """The network."""

    config: ParagraphVector

    @nn.compact
    def __call__(
        self, texts: Sequence[Text], *, train: bool
    ) -> tuple[Float[Array, "B labels"], Losses]:
        """Logits, and the sum of the texts' L."""
        table = texts[0].table.astype(jnp.float32)
        bias = jnp.asarray(self.param("bias", nn.initializers.zeros, (table.shape[0],)))

        # d and L of each text
        vectors = []
        loss = jnp.zeros(texts[0].ids.shape[0])
        with scope("embedding"):
            for text in texts:
                fixed = jax.lax.stop_gradient((table, bias))
                inferred = jax.lax.stop_gradient(self._infer(text, *fixed))
                vectors.append(inferred)
                loss = loss + self._loss(inferred, text, table, bias)

        # the softmax over labels
        with scope("head"):
            joined = Dropout(self.config.dropout)(jnp.concatenate(vectors, -1), train=train)
            return self._output(joined), {"words": loss}

    def _infer(
        self, text: Text, table: Float[Array, "R D"], bias: Float[Array, "R"]
    ) -> Float[Array, "B D"]:
        """The texts' vectors."""
        optimizer = optax.adam(self.config.rate)
        gradient_of = jax.grad(lambda d: self._loss(d, text, table, bias).sum())

        def step(carry: Any, _: None) -> tuple[Any, None]:
            vectors, state = carry
            with jax.numpy_dtype_promotion("standard"):  # optax mixes types, which "strict" forbids
                updates, state = optimizer.update(gradient_of(vectors), state)
            return (vectors + updates, state), None

        zeros = jnp.zeros((text.ids.shape[0], table.shape[1]))
        begin = (zeros, optimizer.init(zeros))
        return jax.lax.scan(step, begin, None, length=self.config.steps)[0][0]

    def _loss(
        self,
        vectors: Float[Array, "B D"],
        text: Text,
        table: Float[Array, "R D"],
        bias: Float[Array, "R"],
    ) -> Float[Array, "B"]:
        """L of each text; 0 of a text without words."""
        # the mean logit of a text's words
        logits = vectors @ table.T + bias[None]
        word_logits = jnp.take_along_axis(logits, text.ids, axis=1)
        count = text.valid.sum(1)
        total = jnp.sum(word_logits, 1, where=text.valid)
        mean = total / jnp.maximum(count, 1).astype(logits.dtype)

        # minus the normaliser, and the decay
        square = jnp.sum(jnp.square(vectors), 1)
        loss = jax.nn.logsumexp(logits, 1) - mean + self.config.decay / 2 * square
        return jnp.where(count > 0, loss, 0)
