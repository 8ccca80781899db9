"""BCNN and ABCNN-1, -2, -3 (Yin et al. 2016): attention before convolution, in pooling, or in both.

A layer is a wide convolution, whose windows extend beyond the ends of the text, tanh, and means
over windows of the same width, which give one state for each word.
With A_ij = 1 / (1 + |x_i - y_j|):

- ABCNN-1: A of the layer's inputs, mapped to features A W, is a second channel of the convolution;
- ABCNN-2: the convolution's outputs are weighted by the sums of their A over the other text's
  words, and summed over the windows instead of averaged;
- ABCNN-3: both.

The label is a logistic regression over the cosines of the texts' means at each level, the words
included. W has a row for each position in the other text, `max_words` of them.

Ours: the texts' means, scaled to norm 1, are also features of the regression, since the three
labels of entailment are not a function of a similarity.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.models.base import (
    POOLED,
    AttendingModule,
    AttentionMap,
    Explained,
    PairModel,
    Text,
    network_of,
)
from common_jax.fields import rate, size
from common_jax.layers import Dense, Dropout
from common_jax.scopes import scope


@dataclasses.dataclass(frozen=True)
class ABCNN(PairModel):
    """BCNN with attention in the convolution's input, in pooling, in both or in neither.

    Attributes:
      dim: filters of a layer.
      layers: number of layers.
      filter_width: w, of convolution and pooling, in words.
      input_attention: whether there is ABCNN-1's attention.
      pooling_attention: whether there is ABCNN-2's attention.
      max_words: rows of W; later words of the other text are ignored in A W.
      dropout: rate on the features of the regression.
    """

    needs_pairs = True
    dim: int = size(50)
    layers: int = size(2)
    filter_width: int = size(4)
    input_attention: bool = True
    pooling_attention: bool = True
    max_words: int = size(100)
    dropout: float = rate(0.0)


@network_of(ABCNN)
class ABCNNModule(AttendingModule):
    """The network."""

    config: ABCNN

    @nn.compact
    def _forward(self, texts: Sequence[Text], train: bool) -> Explained:
        """Logits, and for each layer the attention in the convolution's input, or, without it, each
        word's weight in pooling, summed over its windows."""
        config = self.config
        valid = [text.valid for text in texts]
        states = [text.words.astype(jnp.float32) for text in texts]
        features = _features(states, valid)

        # the layers
        maps = []
        for number in range(config.layers):
            layer = ABCNNLayer(config, number, self.dtype)
            nn.share_scope(self, layer)
            with scope("attention"):
                states, layer_maps = layer(states, valid)
            features += _features(states, valid)
            if layer_maps:
                maps.append(layer_maps)

        # the logistic regression
        with scope("head"):
            joined = Dropout(config.dropout)(jnp.concatenate(features, -1), train=train)
            logits = self._output(joined)
        return logits, maps


class ABCNNLayer(nn.Module):
    """A layer, with the parameters of its number, which both texts share."""

    config: ABCNN
    number: int
    dtype: Any

    @nn.compact
    def __call__(
        self, states: Sequence[Float[Array, "B _ D"]], valid: Sequence[Bool[Array, "B _"]]
    ) -> tuple[list[Float[Array, "B _ H"]], list[AttentionMap]]:
        """The texts' states above, and the attention."""
        config = self.config
        maps = []

        # ABCNN-1: A W as a second channel
        channels = [[x] for x in states]
        if config.input_attention:
            a = matches(*states, *valid)
            rows = self._rows(states[0].shape[-1])
            for text, attention in enumerate((a, jnp.swapaxes(a, 1, 2))):
                channels[text].append(_map_positions(attention, rows))
                maps.append(AttentionMap(text, 1 - text, attention))

        # the convolution
        name = f"convolution_{self.number}"
        dense = Dense(config.dim, ("embed", "mlp"), self.dtype, name=name)
        wide_valid = [_windows(v[..., None], config.filter_width).any(-1) for v in valid]
        wide = []
        for text_channels, text_valid in zip(channels, wide_valid, strict=True):
            windows = [_windows(x, config.filter_width) for x in text_channels]
            x = jnp.tanh(dense(jnp.concatenate(windows, -1)).astype(jnp.float32))
            wide.append(jnp.where(text_valid[..., None], x, 0))

        # pooling, as means
        if not config.pooling_attention:
            scale = 1 / config.filter_width
            above = [_pooled(x, config.filter_width) * scale for x in wide]

        # or ABCNN-2: as sums weighted by those of A
        else:
            a = matches(*wide, *wide_valid)
            above = []
            for text, weights in enumerate((a.sum(2), a.sum(1))):
                above.append(_pooled(wide[text] * weights[..., None], config.filter_width))
                if not config.input_attention:
                    by_word = _pooled(weights[..., None], config.filter_width)[..., 0]
                    by_word = jnp.where(valid[text], by_word, 0)
                    maps.append(AttentionMap(POOLED, text, by_word[:, None]))

        above = [jnp.where(v[..., None], x, 0) for x, v in zip(above, valid, strict=True)]
        return above, maps

    def _rows(self, size: int) -> Array:
        """W, a row for each position in the other text."""
        normal = nn.with_logical_partitioning(nn.initializers.normal(0.1), (None, "embed"))
        shape = (self.config.max_words, size)
        return jnp.asarray(self.param(f"attention_{self.number}", normal, shape))


def _features(states: Sequence[Array], valid: Sequence[Array]) -> list[Array]:
    """The texts' means at a level, scaled to norm 1, and their cosine."""
    means = [_mean(x, text_valid) for x, text_valid in zip(states, valid, strict=True)]
    means = [m / jnp.sqrt(jnp.sum(m * m, -1, keepdims=True) + 1e-12) for m in means]
    return [*means, jnp.sum(means[0] * means[1], -1, keepdims=True)]


def matches(
    first: Float[Array, "B T D"],
    second: Float[Array, "B S D"],
    first_valid: Bool[Array, "B T"],
    second_valid: Bool[Array, "B S"],
) -> Float[Array, "B T S"]:
    """A_ij = 1 / (1 + |x_i - y_j|), zeros at padding."""
    # |x_i - y_j|^2
    squares = [jnp.sum(x * x, -1) for x in (first, second)]
    exact = jax.lax.Precision.HIGHEST  # a small difference of large numbers
    products = jnp.einsum("btd,bsd->bts", first, second, precision=exact)
    between = squares[0][:, :, None] + squares[1][:, None] - 2 * products

    # the gradient of the square root is infinite at 0
    distance = jnp.where(between > 1e-6, jnp.sqrt(jnp.maximum(between, 1e-6)), 0)
    real = first_valid[:, :, None] & second_valid[:, None]
    return jnp.where(real, 1 / (1 + distance), 0)


def _map_positions(a: Float[Array, "B T S"], rows: Float[Array, "P D"]) -> Float[Array, "B T D"]:
    """A W for the first P positions."""
    rows = jnp.take(rows, jnp.arange(a.shape[2]), axis=0, mode="fill", fill_value=0)
    return jnp.einsum("bts,sd->btd", a, rows)


def _windows(x: Array, width: int) -> Array:
    """The inputs of a wide convolution: [B, T + width - 1, width * D]."""
    ends = jnp.pad(x, ((0, 0), (width - 1, width - 1), (0, 0)))
    length = x.shape[1] + width - 1
    return jnp.concatenate([ends[:, at : at + length] for at in range(width)], -1)


def _pooled(x: Float[Array, "B U D"], width: int) -> Float[Array, "B T D"]:
    """Sums over windows of a wide convolution's outputs, one for each word."""
    length = x.shape[1] - width + 1
    return sum((x[:, at : at + length] for at in range(1, width)), x[:, :length])


def _mean(x: Float[Array, "B T D"], valid: Bool[Array, "B T"]) -> Float[Array, "B D"]:
    count = jnp.maximum(valid.sum(1, keepdims=True), 1).astype(x.dtype)
    return jnp.where(valid[..., None], x, 0).sum(1) / count
