"""BCNN and ABCNN-1, -2, -3 (Yin et al. 2016): attention matrices of two texts, in two places.

A layer is a wide convolution, of windows that reach beyond the ends, tanh, and means over windows
of the same width, which give each word one state again. With A_ij = 1 / (1 + |x_i - y_j|):

- ABCNN-1: A of a layer's inputs, mapped to features, A W, is a second channel of the convolution;
- ABCNN-2: A of the convolution's outputs weights them, by its sums over the other text's words, in
  sums over the windows instead of means;
- ABCNN-3: both.

Each level, words included, gives the cosine of the texts' means, and a logistic regression over
these the label. W has a row for each of the other text's places: `max_words` of them.

Ours: the texts' means themselves are features of the regression too, since three labels of an
entailment are no function of a similarity.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.models.base import POOLED, AttentionMap, Explained, PairModel, PairModule, Text
from common_jax.fields import require
from common_jax.layers import Dense, Dropout
from common_jax.scopes import part


@dataclasses.dataclass(frozen=True)
class ABCNN(PairModel):
    """BCNN with attention in the convolution's input, in pooling, in both or in neither.

    Attributes:
      dim: filters of a layer.
      layers: their number.
      filter_width: w, of convolution and pooling, in words.
      input_attention: ABCNN-1's.
      pooling_attention: ABCNN-2's.
      max_words: rows of W; words beyond have none.
      dropout: rate on the features of the regression.
    """

    dim: int = 50
    layers: int = 2
    filter_width: int = 4
    input_attention: bool = True
    pooling_attention: bool = True
    max_words: int = 100
    dropout: float = 0.0

    def __post_init__(self):
        for name in ("dim", "layers", "filter_width", "max_words"):
            require(getattr(self, name) >= 1, f"model.{name}={getattr(self, name)}: at least 1")
        require(0 <= self.dropout < 1, "model.dropout: a rate in [0, 1)")

    def require_texts(self, texts: int) -> None:
        require(texts == 2, "ABCNN: needs two texts")

    def module(self, labels: int, dtype: Any) -> "ABCNNModule":
        return ABCNNModule(self, labels, dtype)


class ABCNNModule(PairModule):
    """The network."""

    config: ABCNN
    labels: int
    dtype: Any = jnp.float32

    def __call__(self, texts: Sequence[Text], *, train: bool) -> Float[Array, "B labels"]:
        """Logits."""
        return self._forward(texts, train)[0]

    def explain(self, texts: Sequence[Text]) -> Explained:
        """Logits, and for each layer the words' shares of the matrix that weights them in pooling,
        or in the convolution's input."""
        return self._forward(texts, train=False)

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        config, valid = self.config, [text.valid for text in texts]
        states = [text.words.astype(jnp.float32) for text in texts]
        features, maps = self._features(states, valid), []
        for number in range(config.layers):
            with part("attention"):
                channels = [[x] for x in states]
                shown = matches(*states, *valid)
                if config.input_attention:
                    rows = self._rows(f"attention_{number}", states[0].shape[-1])
                    both = shown, jnp.swapaxes(shown, 1, 2)
                    for own, a in zip(channels, both, strict=True):
                        own.append(_by_place(a, rows))
                dense = Dense(
                    config.dim, ("embed", "mlp"), self.dtype, name=f"convolution_{number}"
                )
                windows = [
                    jnp.concatenate([_windows(x, config.filter_width) for x in own], -1)
                    for own in channels
                ]
                wide = [jnp.tanh(dense(x).astype(jnp.float32)) for x in windows]
                wide_valid = [_windows(v[..., None], config.filter_width).any(-1) for v in valid]
                wide = [
                    jnp.where(real[..., None], x, 0)
                    for x, real in zip(wide, wide_valid, strict=True)
                ]
                scale = 1 / config.filter_width
                if config.pooling_attention:
                    shown = matches(*wide, *wide_valid)
                    shares = shown.sum(2), shown.sum(1)
                    wide = [x * s[..., None] for x, s in zip(wide, shares, strict=True)]
                    scale = 1.0
                states = [_pooled(x, config.filter_width) * scale for x in wide]
                states = [
                    jnp.where(real[..., None], x, 0) for x, real in zip(states, valid, strict=True)
                ]
            features += self._features(states, valid)
            sums = [shown.sum(2), shown.sum(1)]
            maps.append(
                [
                    AttentionMap(POOLED, n, one[:, None, : text.valid.shape[1]])
                    for n, (one, text) in enumerate(zip(sums, texts, strict=True))
                ]
            )
        with part("head"):
            joined = Dropout(config.dropout)(jnp.concatenate(features, -1), train=train)
            logits = Dense(self.labels, ("mlp", "labels"), jnp.float32, name="output")(joined)
        return logits, maps

    def _features(self, states: Sequence[Array], valid: Sequence[Array]) -> list[Array]:
        """The means of a level, and their cosine."""
        means = [_mean(x, real) for x, real in zip(states, valid, strict=True)]
        lengths = [jnp.sqrt(jnp.sum(m * m, -1, keepdims=True) + 1e-12) for m in means]
        cosine = jnp.sum(means[0] * means[1], -1, keepdims=True) / (lengths[0] * lengths[1])
        return [*means, cosine]

    def _rows(self, name: str, size: int) -> Array:
        """W, a row for each place of the other text."""
        return jnp.asarray(
            self.param(name, nn.initializers.normal(0.1), (self.config.max_words, size))
        )


def matches(
    first: Float[Array, "B T D"],
    second: Float[Array, "B S D"],
    first_valid: Bool[Array, "B T"],
    second_valid: Bool[Array, "B S"],
) -> Float[Array, "B T S"]:
    """A_ij = 1 / (1 + |x_i - y_j|), zeros at padding."""
    square = lambda x: jnp.sum(x * x, -1)
    between = square(first)[:, :, None] + square(second)[:, None]
    between = between - 2 * jnp.einsum("btd,bsd->bts", first, second)
    # the slope of the root is infinite at 0
    distance = jnp.where(between > 1e-6, jnp.sqrt(jnp.maximum(between, 1e-6)), 0)
    real = first_valid[:, :, None] & second_valid[:, None]
    return jnp.where(real, 1 / (1 + distance), 0)


def _by_place(a: Float[Array, "B T S"], rows: Float[Array, "P D"]) -> Float[Array, "B T D"]:
    """A W, of the first P places."""
    most = min(a.shape[2], rows.shape[0])
    return jnp.einsum("bts,sd->btd", a[..., :most], rows[:most])


def _windows(x: Array, width: int) -> Array:
    """The inputs of a wide convolution: [B, T + width - 1, width * D]."""
    ends = jnp.pad(x, ((0, 0), (width - 1, width - 1), (0, 0)))
    length = x.shape[1] + width - 1
    return jnp.concatenate([ends[:, at : at + length] for at in range(width)], -1)


def _pooled(x: Float[Array, "B U D"], width: int) -> Float[Array, "B T D"]:
    """Sums over windows of a wide convolution's outputs, one a word."""
    length = x.shape[1] - width + 1
    return sum((x[:, at : at + length] for at in range(1, width)), x[:, :length])


def _mean(x: Float[Array, "B T D"], valid: Bool[Array, "B T"]) -> Float[Array, "B D"]:
    count = jnp.maximum(valid.sum(1, keepdims=True), 1)
    return jnp.where(valid[..., None], x, 0).sum(1) / count
