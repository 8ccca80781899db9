"""Attentive convolution: filters that see a window and what attention brings from farther away.

Legend beside the house's (`common_jax.masks`): T and S words of the text that attends and of the
one attended to (t^x and t^a in the paper); D the width of what comes in, H of what comes out.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.config import Features, ModelConfig
from common_jax.layers import Convolution, dense
from common_jax.masks import masked_softmax, padding

_ROWS = 8  # words whose additive energies are computed at once


class GatedConvolution(nn.Module):
    """f_gconv (Eq. 7-9): a gate between each word's state and what a convolution makes of it.

    o = tanh(W_h i + b_h), g = sigmoid(W_g i + b_g) and g u + (1 - g) o, where i are the states in a
    window of `width` words around the state u. The sum makes o as wide as u, whatever the hidden
    size. Without the gate it is o alone (Table 4, "w/o gate").
    """

    width: int
    gate: bool
    dtype: Any

    @nn.compact
    def __call__(self, states: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        convolution = lambda name: Convolution(states.shape[-1], self.width, self.dtype, name=name)
        change = jnp.tanh(convolution("change")(states))
        if not self.gate:
            return change
        gate = nn.sigmoid(convolution("gate")(states))
        return change + gate * (states - change)


class FeatureMap(nn.Module):
    """What attention takes a text's states for: its source, its focus or its beneficiary.

    "states" are as they are (the light model), "unigram" is f_gconv of each (Eq. 10 and 13),
    "phrase" of a window (Eq. 11), and "multigranular" both, side by side (f_mgran, Eq. 12).
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
        widths = {"unigram": [1], "phrase": [self.phrase_width]}
        maps = [
            GatedConvolution(width, self.gate, self.dtype)(states)
            for width in widths.get(self.kind, [1, self.phrase_width])
        ]
        # a bias has reached the padding too, and a window would carry it back among the words
        return jnp.where(valid[..., None], jnp.concatenate(maps, axis=-1), 0)


class Energy(nn.Module):
    """How well each word of one text matches each of another: f_e (Eq. 1-3)."""

    kind: str
    dtype: Any

    @nn.compact
    def __call__(
        self, source: Float[Array, "B T F"], focus: Float[Array, "B S G"]
    ) -> Float[Array, "B T S"]:
        dim = focus.shape[-1]
        project = lambda name: dense(dim, ("embed", "mlp"), self.dtype, use_bias=False, name=name)
        if self.kind != "dot":
            source = project("source")(source)
        if self.kind != "additive":
            return jnp.einsum("btf,bsf->bts", source, focus, preferred_element_type=jnp.float32)
        focus = project("focus")(focus)
        weight = self.param("weight", nn.initializers.normal(dim**-0.5), (dim,)).astype(self.dtype)

        @jax.checkpoint  # a few words at a time, or there is a [B, T, S, G] array
        def row(word: Float[Array, "B G"]) -> Float[Array, "B S"]:
            return (jnp.tanh(word[:, None] + focus) @ weight).astype(jnp.float32)

        # a symbolic length, an export's, is not cut into pieces
        at_once = _ROWS if isinstance(source.shape[1], int) else None
        rows = jax.lax.map(row, jnp.swapaxes(source, 0, 1), batch_size=at_once)
        return jnp.swapaxes(rows, 0, 1)


class Maps(NamedTuple):
    """What a text is for attention."""

    source: Float[Array, "B T F"]
    focus: Float[Array, "B T G"]
    beneficiary: Float[Array, "B T D"]


class Attended(NamedTuple):
    """The words of one text that those of another have looked at.

    Attributes:
      text, context: numbers of the text that attended and of the one attended to.
    """

    text: int
    context: int
    weights: Float[Array, "B T S"]


class AttentiveConvolution(nn.Module):
    """One layer over a text, or over two that attend to each other (Eq. 4-6, Figure 1).

    h_i = tanh(W1 [f_{i-1}, f_i, f_{i+1}] + W2 c_i + b): f is the beneficiary's map, and c_i the sum
    of the focus's map weighted by the softmax of the energies between the source's word i and each
    word of the focus. With attention "both" there is one more term, W3 c'_i, whose context is the
    text itself. Two texts have the same parameters (section 4.1, "Siamese").
    """

    config: ModelConfig
    dtype: Any

    def setup(self):
        config = self.config
        made = lambda kind: FeatureMap(kind, config.phrase_width, config.gate, self.dtype)
        self.source = made(config.source)
        # one f_mgran for both, as the paper writes it, where both are of one kind
        self.focus = self.source if config.focus == config.source else made(config.focus)
        self.beneficiary = made(config.beneficiary)
        self.convolution = Convolution(config.dim, config.filter_width, self.dtype)
        self.energy = Energy(config.energy, self.dtype)
        context = lambda: dense(config.dim, ("embed", "mlp"), self.dtype, use_bias=False)
        self.context = {kind: context() for kind in config.contexts}

    def __call__(
        self, states: Sequence[Float[Array, "B T D"]], valid: Sequence[Bool[Array, "B T"]]
    ) -> tuple[list[Float[Array, "B T H"]], list[Attended]]:
        """The states of the layer above for each text, zeros at its padding; and the weights."""
        maps = [self._maps(*text) for text in zip(states, valid, strict=True)]
        above, attended = [], []
        for text, (source, _, beneficiary) in enumerate(maps):
            total = self.convolution(beneficiary)
            for kind, context in self._contexts(text, len(maps)):
                focus = maps[context].focus
                weights = self._weights(source, focus, valid[text], valid[context])
                seen = jnp.einsum("bts,bsf->btf", weights.astype(self.dtype), focus)
                total = total + self.context[kind](seen)
                attended.append(Attended(text, context, weights))
            above.append(jnp.where(valid[text][..., None], jnp.tanh(self.config.slope * total), 0))
        return above, attended

    def _maps(self, states: Array, valid: Array) -> Maps:
        if not self.config.contexts:
            return Maps(states, states, states)
        return Maps(*(f(states, valid) for f in (self.source, self.focus, self.beneficiary)))

    def _contexts(self, text: int, texts: int) -> Iterator[tuple[str, int]]:
        """The kinds of attention of a text, and the text that each looks at."""
        for kind in self.config.contexts:
            if kind == "intra":
                yield kind, text
            elif texts == 2 and (text == 0 or self.config.two_way):
                yield kind, 1 - text

    def _weights(
        self,
        source: Float[Array, "B T F"],
        focus: Float[Array, "B S G"],
        source_valid: Bool[Array, "B T"],
        focus_valid: Bool[Array, "B S"],
    ) -> Float[Array, "B T S"]:
        """Softmax of the energies over the words of the focus (Eq. 4), zeros at padding."""
        mask = padding(focus_valid, source_valid)
        allowed = mask.allowed(source.shape[1], focus.shape[1], 1)[:, 0]
        energies = self.energy(source, focus)
        if not self.config.author_compat:
            return masked_softmax(energies, allowed)
        # the padding, of energies 0, as one more word that is as likely as all of it
        pads = jnp.maximum(self.config.author_length - focus_valid.sum(axis=1), 0)
        share = jnp.broadcast_to(
            jnp.log(pads.astype(jnp.float32))[:, None, None], (*energies.shape[:2], 1)
        )
        energies = jnp.concatenate([energies, share], axis=-1)
        allowed = jnp.concatenate([allowed, (share > -jnp.inf) & source_valid[..., None]], axis=-1)
        return masked_softmax(energies, allowed)[..., :-1]
