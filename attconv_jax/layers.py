"""Layers of matching models: gated convolution, feature maps, energies, max-pooling, the head.

Dims beside the legend of `common_jax.masks`: T and S words of the attending text and of the text
attended to (t^x and t^a in the paper); D the width of a layer's input, H of its output.
"""

import functools
from collections.abc import Sequence
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from common_jax.convolution import Convolution
from common_jax.layers import Dense, Dropout, einsum
from common_jax.masks import MASKED, masked_softmax
from common_jax.pieces import join, map_pieces, split
from common_jax.scopes import scope
from common_jax.sharding import gathered

Features = Literal["states", "unigram", "phrase", "multigranular"]

SLOPE = 0.02  # of the hidden layers' leaky ReLUs
_PIECE = 2**18  # elements of additive energies' hidden layer computed at once on a CPU


class GatedConvolution(nn.Module):
    """f_gconv (Eq. 7-9): a gated sum of each word's state and a convolution around it.

    With u the word's state and i the states in a window of `width` words around it,
    o = tanh(W_h i + b_h), g = sigmoid(W_g i + b_g), and the result is g u + (1 - g) o; hence o is
    as wide as u. Without the gate the result is o (Table 4, "w/o gate").
    """

    width: int
    gate: bool
    dtype: Any

    @nn.compact
    def __call__(self, states: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        def convolution(name: str) -> Convolution:
            return Convolution(states.shape[-1], self.width, self.dtype, name=name)

        transform = jnp.tanh(convolution("transform")(states))
        if not self.gate:
            return transform
        gate = nn.sigmoid(convolution("gate")(states))
        return transform + gate * (states - transform)


class FeatureMap(nn.Module):
    """Features of a text's states for attention, as its source, focus or beneficiary.

    "states" is the identity (the light model), "unigram" f_gconv of width 1 (Eq. 10 and 13),
    "phrase" of width `phrase_width` (Eq. 11), and "multigranular" both, concatenated (f_mgran,
    Eq. 12).
    """

    kind: Features
    phrase_width: int
    gate: bool
    dtype: Any

    @nn.compact
    def __call__(
        self, states: Float[Array, "B T D"], valid: Bool[Array, "B T"]
    ) -> Float[Array, "B T F"]:
        if self.kind == "states":
            return states
        widths = {"unigram": 1, "phrase": self.phrase_width}
        maps = [
            GatedConvolution(width, self.gate, self.dtype, name=granularity)(states)
            for granularity, width in widths.items()
            if self.kind in (granularity, "multigranular")
        ]
        # padding has the bias now, which a later window would mix into words
        return jnp.where(valid[..., None], jnp.concatenate(maps, axis=-1), 0)


class Energy(nn.Module):
    """Energies between the words of two texts: f_e (Eq. 1-3)."""

    kind: str
    dtype: Any

    @nn.compact
    def __call__(
        self, source: Float[Array, "B T F"], focus: Float[Array, "B S G"]
    ) -> Float[Array, "B T S"]:
        dim = focus.shape[-1]

        def project(name: str) -> Dense:
            return Dense(dim, ("embed", "mlp"), self.dtype, use_bias=False, name=name)

        # Eq. 1 and 2
        if self.kind != "dot":
            source = project("source")(source)
        if self.kind != "additive":
            return jnp.einsum("btf,bsf->bts", source, focus, preferred_element_type=jnp.float32)

        # Eq. 3
        focus = project("focus")(focus)
        weight = self.param("weight", nn.initializers.normal(dim**-0.5), (dim,)).astype(self.dtype)
        return additive_energies(source, focus, weight)


@jax.custom_vjp
def additive_energies(
    source: Float[Array, "B T G"],
    focus: Float[Array, "B S G"],
    weight: Float[Array | np.ndarray, "G"],
) -> Float[Array, "B T S"]:
    """w . tanh(x_t + y_s), in float32.

    On a CPU it is computed for a few words of one text at a time, to fit the cache, instead of as
    an array [B, T, S, G]. The backward pass recomputes the tanh.
    """
    return _energies_forward(source, focus, weight)[0]


def _energies_forward(source, focus, weight):
    def at_once(source, focus, weight):
        products = _hidden(source, focus) * weight[None, None, None]
        return products.sum(-1, dtype=jnp.float32)

    def in_pieces(source, focus, weight):
        def energies_of_text(text):
            source, focus = text

            def energies(words):
                return einsum("tsg,g->ts", _hidden(words, focus), weight)

            return map_pieces(energies, (source,), 0, _words_of_a_piece(source, focus))

        return jax.lax.map(energies_of_text, (source, focus))

    # an export's symbolic length cannot be divided into pieces
    symbolic = not isinstance(source.shape[1] * focus.shape[1], int)
    residuals = (source, focus, weight)
    energies = at_once(*residuals) if symbolic else _on_cpu(in_pieces, at_once, *residuals)
    return energies, residuals


def _energies_backward(residuals, cotangent):
    wide = jnp.float32

    def at_once(source, focus, weight, cotangent):
        hidden = _hidden(source, focus).astype(wide)
        slope = cotangent[..., None] * (1 - hidden * hidden) * weight.astype(wide)[None, None, None]
        return slope.sum(2), slope.sum(1), jnp.einsum("bts,btsg->g", cotangent, hidden)

    def in_pieces(source, focus, weight, cotangent):
        # a piece of a text's words: adds to the gradients of w and of the other text
        def piece(totals, inputs, focus):
            d_weight, d_focus = totals
            words, cotangent = inputs
            hidden = _hidden(words, focus).astype(wide)
            slope = cotangent[..., None] * (1 - hidden * hidden)
            d_weight = d_weight + jnp.einsum("ts,tsg->g", cotangent, hidden)
            # as a product: XLA's sum over a first axis is 20 times as slow on a CPU
            d_focus = d_focus + jnp.einsum("t,tsg->sg", jnp.ones(len(slope), wide), slope)
            return (d_weight, d_focus), slope.sum(1)

        # a text: all of its pieces
        def text(d_weight, inputs):
            source, focus, cotangent = inputs
            size = _words_of_a_piece(source, focus)
            pieces = (split(source, 0, size), split(cotangent, 0, size))
            zeros = (d_weight, jnp.zeros(focus.shape, wide))
            of_piece = functools.partial(piece, focus=focus)
            (d_weight, d_focus), d_words = jax.lax.scan(of_piece, zeros, pieces)
            return d_weight, (join(d_words, 0, len(source)), d_focus)

        zeros = jnp.zeros(weight.shape, wide)
        d_weight, gradients = jax.lax.scan(text, zeros, (source, focus, cotangent))
        d_source, d_focus = gradients
        scale = weight.astype(wide)[None, None]
        return d_source * scale, d_focus * scale, d_weight

    gradients = _on_cpu(in_pieces, at_once, *residuals, cotangent)
    return tuple(g.astype(x.dtype) for g, x in zip(gradients, residuals, strict=True))


additive_energies.defvjp(_energies_forward, _energies_backward)


def _on_cpu(function, otherwise, *arrays):
    return jax.lax.platform_dependent(*arrays, cpu=function, default=otherwise)


def _hidden(words: Float[Array, "*b T G"], focus: Float[Array, "*b S G"]):
    return jnp.tanh(jnp.expand_dims(words, -2) + jnp.expand_dims(focus, -3))


def _words_of_a_piece(source: Float[Array, "T G"], focus: Float[Array, "S G"]) -> int:
    return min(len(source), max(1, _PIECE // focus.size))


class Head(nn.Module):
    """Logits from pooled texts: composition, two hidden layers, and a logistic regression over the
    outputs of all three (section 4, "common setup").

    The composition is [r_x, r_y, r_x * r_y] for two texts, r_x for one; the hidden layers are leaky
    ReLUs.

    Attributes:
      dim: size of the hidden layers.
      labels: number of labels.
      dropout: the model's, applied to pooled texts and hidden layers.
    """

    dim: int
    labels: int
    dropout: Dropout
    dtype: Any

    def setup(self):
        self.hidden = [Dense(self.dim, ("embed", "mlp"), self.dtype) for _ in range(2)]
        self.output = Dense(self.labels, ("mlp", "labels"), jnp.float32)

    def __call__(
        self,
        pooled: Sequence[Float[Array, "B H"]],
        *,
        train: bool,
        further: Sequence[Float[Array, "B _"]] = (),
    ) -> Float[Array, "B labels"]:
        """Logits.

        Args:
          pooled: one or two texts.
          further: features of the logistic regression only.
        """
        with scope("head"):
            # composition
            pooled = [self.dropout(text, train=train) for text in pooled]
            products = [pooled[0] * pooled[1]] if len(pooled) == 2 else []
            outputs = [jnp.concatenate([*pooled, *products], axis=-1)]

            # hidden layers
            for hidden in self.hidden:
                above = nn.leaky_relu(hidden(outputs[-1]), SLOPE)
                outputs.append(self.dropout(above, train=train))

            # logistic regression over all of them
            outputs = [output.astype(jnp.float32) for output in (*outputs, *further)]
            return self.output(jnp.concatenate(outputs, axis=-1))


def max_pooled(states: Float[Array, "B T H"], valid: Bool[Array, "B T"]) -> Float[Array, "B H"]:
    """Max-pooling over the words; zeros for a text without words."""
    maxima = jnp.where(valid[..., None], states, jnp.asarray(MASKED, states.dtype)).max(axis=1)
    return jnp.where(valid.any(axis=1)[:, None], maxima, 0)


def both_ways(
    energies: Float[Array, "B T S"], first: Bool[Array, "B T"], second: Bool[Array, "B S"]
) -> tuple[Float[Array, "B T S"], Float[Array, "B S T"]]:
    """The attention weights of each text's words over the other's, zeros at padding."""
    allowed = first[:, :, None] & second[:, None]
    swapped = jnp.swapaxes(energies, 1, 2), jnp.swapaxes(allowed, 1, 2)
    return masked_softmax(energies, allowed), masked_softmax(*swapped)


class ReluLayers(nn.Module):
    """Hidden layers with ReLU.

    Attributes:
      sizes: size of each layer.
      dropout: rate on the input of each.
    """

    sizes: tuple[int, ...]
    dropout: float
    dtype: Any

    @nn.compact
    def __call__(self, x: Float[Array, "*b D"], *, train: bool) -> Float[Array, "*b H"]:
        for number, size in enumerate(self.sizes):
            x = Dropout(self.dropout)(x, train=train)
            layer = Dense(size, ("embed", "mlp"), self.dtype, name=f"layer_{number}")
            x = nn.relu(layer(x))
        return x


def matrix(module: nn.Module, name: str, rows: int, columns: int) -> Float[Array, "D F"]:
    """A Glorot-uniform matrix parameter of a module, for products inside a loop over words."""
    glorot = nn.with_logical_partitioning(nn.initializers.xavier_uniform(), ("embed", "mlp"))
    return gathered(jnp.asarray(module.param(name, glorot, (rows, columns))), "embed", "mlp")
