"""Attentive convolution against NumPy written from the paper: values and gradients.

Texts have different lengths, one on each side has no word, and padding has garbage.
"""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.layers import Energy
from attconv_jax.models.attentive_convolution import (
    AttentiveConvolution,
    AttentiveConvolutionLayer,
)
from tests import random_params
from tests.attconv_jax import numpy_reference
from tests.gradcheck import assert_slopes
from tests.random_params import normal

CONFIG, D = AttentiveConvolution(dim=5), 4
LENGTHS, WIDTHS = ([5, 1, 3, 0], [6, 2, 0, 4]), (7, 6)
LIGHT = {"source": "states", "focus": "states", "beneficiary": "states"}
NO_TRIGRAM = {"source": "unigram", "focus": "unigram"}
CASES = {
    "light": LIGHT,
    "light, bilinear, width 1": LIGHT | {"energy": "bilinear", "filter_width": 1},
    "light, additive, width 5": LIGHT | {"energy": "additive", "filter_width": 5},
    "advanced": {},
    "advanced, bilinear, phrases of 5": {"energy": "bilinear", "phrase_width": 5},
    "advanced, intra, additive": {"attention": "intra", "energy": "additive"},
    "without tri-hidden": NO_TRIGRAM | {"attention": "both"},
    "other parts": {
        "source": "phrase",
        "focus": "multigranular",
        "beneficiary": "multigranular",
        "energy": "additive",
    },
    "narrower focus, without gate": {
        "focus": "states",
        "beneficiary": "phrase",
        "energy": "bilinear",
        "gate": False,
    },
    "one way, gentler": {"attention": "both", "symmetric": False, "tanh_gain": 0.5},
    "unmasked, longer than the authors' texts": {
        "unmasked_softmax": True,
        "author_length": 4,
        "attention": "both",
    },
}


def on_device(tree):
    return jax.tree.map(jnp.asarray, tree)


def padded(lengths, width, seed=1):
    """[B, width, D] with garbage after each length, and which positions are valid."""
    valid = np.arange(width) < np.array(lengths)[:, None]
    x = normal(len(lengths), width, D, seed=seed)
    return np.where(valid[..., None], x, np.float32(np.nan)), valid


def zeroed(x, valid):
    """The states as a layer gets them, with zeros at padding."""
    return jnp.where(valid[..., None], x, 0)


def additive(params, source, focus):
    """The additive energy, by an array of all pairs and features."""
    source, focus = source @ params["source"]["kernel"], focus @ params["focus"]["kernel"]
    return jnp.tanh(source[:, :, None] + focus[:, None]) @ params["weight"]


@pytest.mark.parametrize("words", [1, 8, 19])
def test_additive_energies_in_parts_are_those_of_all_pairs_at_once(words, monkeypatch):
    monkeypatch.setattr("attconv_jax.layers._PIECE", 8 * 3 * 6)  # eight words
    module, inputs = Energy("additive", jnp.float32), (normal(2, words, 4), normal(2, 3, 6, seed=2))
    params, cotangent = random_params.parameters(module, *inputs), normal(2, words, 3, seed=3)
    in_parts = lambda params, *inputs: module.apply({"params": params}, *inputs)

    def both(params, *inputs):
        for form in (in_parts, additive):
            energies, pull = jax.vjp(form, params, *inputs)
            yield energies, pull(cotangent)

    computed, expected = jax.jit(lambda *inputs: list(both(*inputs)))(params, *inputs)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    jax.tree.map(close, computed, expected)


def test_additive_energies_make_no_array_of_pairs_and_features(monkeypatch):
    module, (b, t, s, d) = Energy("additive", jnp.float32), (2, 40, 30, 7)
    monkeypatch.setattr("attconv_jax.layers._PIECE", 5 * s * d)
    inputs = normal(b, t, d), normal(b, s, d)
    params = random_params.parameters(module, *inputs)

    def largest(form):
        total = lambda *inputs: form(*inputs).sum()
        program = jax.jit(jax.grad(total, argnums=(0, 1, 2))).lower(params, *inputs).as_text()
        shapes = re.findall(r"tensor<((?:\d+x)+)f32>", program)
        return max(math.prod(map(int, shape.split("x")[:-1])) for shape in shapes)

    assert largest(additive) >= b * t * s * d
    in_parts = lambda params, *inputs: module.apply({"params": params}, *inputs)
    assert largest(in_parts) < b * t * s * d / 4


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_attentive_convolution(changes):
    config = dataclasses.replace(CONFIG, **changes)
    module = AttentiveConvolutionLayer(config, jnp.float32)
    texts = [
        padded(*text, seed=seed) for seed, text in enumerate(zip(LENGTHS, WIDTHS, strict=True))
    ]
    states, valid = map(list, zip(*texts, strict=True))
    params = random_params.parameters(module, states, valid)
    cotangents = [normal(*v.shape, config.dim, seed=3) for v in valid]

    def total(inputs):
        params, states = inputs
        given = list(map(zeroed, states, valid)), on_device(valid)
        above, attended = module.apply({"params": params}, *given)
        return sum(map(jnp.vdot, above, cotangents)), (above, attended)

    def by_hand(inputs):
        """The states and the weights of each row, by the reference."""
        params, states = inputs
        for row, lengths in enumerate(zip(*LENGTHS, strict=True)):
            own = [x[row, :length] for x, length in zip(states, lengths, strict=True)]
            yield numpy_reference.attentive_convolution(own, params, config)

    def total_by_hand(inputs):
        return sum(
            np.vdot(h, c[row, : len(h)])
            for row, (above, _) in enumerate(by_hand(inputs))
            for h, c in zip(above, cotangents, strict=True)
        )

    inputs = params, states
    # without jit: compiled operations of one case are reused in the others
    (_, (above, attended)), gradients = jax.value_and_grad(total, has_aux=True)(inputs)
    got = {(int(a.text), int(a.context)): np.array(a.weights) for a in attended}
    above = list(map(np.array, above))
    for row, (want, weights) in enumerate(by_hand(random_params.exact(inputs))):
        assert set(weights) == set(got)
        places = [(above[text][row], h) for text, h in enumerate(want)]
        places += [(got[pair][row], w) for pair, w in weights.items()]
        for computed, expected in places:
            inside = computed[tuple(map(slice, expected.shape))]
            np.testing.assert_allclose(inside, expected, rtol=1e-4, atol=1e-5)
            inside[:] = 0
            assert not computed.any()  # padding
    assert_slopes(total_by_hand, inputs, gradients)
