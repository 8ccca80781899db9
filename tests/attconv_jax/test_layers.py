"""Attention and additive energies in pieces, whose numbers are those of all at once and which make
no array of all pairs (the layer's equations: test_model.py)."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.layers import Energy
from attconv_jax.models.attentive_convolution import (
    AttentiveConvolution,
)
from attconv_jax.models.base import Matcher
from tests import random_params
from tests.random_params import normal


def additive(params, source, focus):
    """The additive energy, by an array of all pairs and features."""
    source, focus = source @ params["source"]["kernel"], focus @ params["focus"]["kernel"]
    return jnp.tanh(source[:, :, None] + focus[:, None]) @ params["weight"]


def in_parts(params, *inputs):
    return Energy("additive", jnp.float32).apply({"params": params}, *inputs)


@pytest.mark.parametrize("words", [1, 8, 19])
def test_additive_energies_in_parts_are_those_of_all_pairs_at_once(words, monkeypatch):
    monkeypatch.setattr("attconv_jax.layers._PIECE", 8 * 3 * 6)  # eight words
    inputs = normal(2, words, 4), normal(2, 3, 6, seed=2)
    params = random_params.parameters(Energy("additive", jnp.float32), *inputs)
    cotangent = normal(2, words, 3, seed=3)

    @jax.jit
    def both(*inputs):
        results = [jax.vjp(form, *inputs) for form in (in_parts, additive)]
        return [(energies, pull(cotangent)) for energies, pull in results]

    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    jax.tree.map(close, *both(params, *inputs))


def test_additive_energies_make_no_array_of_pairs_and_features(monkeypatch):
    b, t, s, d = 2, 40, 30, 7
    monkeypatch.setattr("attconv_jax.layers._PIECE", 5 * s * d)
    inputs = normal(b, t, d), normal(b, s, d)
    params = random_params.parameters(Energy("additive", jnp.float32), *inputs)

    def largest(form):
        total = lambda *inputs: form(*inputs).sum()
        program = jax.jit(jax.grad(total, argnums=(0, 1, 2))).lower(params, *inputs).as_text()
        shapes = re.findall(r"tensor<((?:\d+x)+)f32>", program)
        return max(math.prod(map(int, shape.split("x")[:-1])) for shape in shapes)

    assert largest(additive) >= b * t * s * d
    assert largest(in_parts) < b * t * s * d / 4


ROWS = 30


@pytest.mark.parametrize("features", ["states", "multigranular"])
@pytest.mark.parametrize(
    "attention", ["both", *(pytest.param(x, marks=pytest.mark.slow) for x in ("inter", "intra"))]
)
def test_attention_in_pieces_has_the_same_numbers(attention, features, monkeypatch):
    config = AttentiveConvolution(dim=6, attention=attention, source=features, focus=features)
    matcher = Matcher(config, ROWS, 5, 3)
    random = np.random.default_rng(0)
    arrays = {
        "first": random.integers(1, ROWS, (2, 37)),
        "second": random.integers(1, ROWS, (2, 23)),
    }
    arrays["first"][1, 20:] = 0
    arrays["second"][0, 11:] = 0
    arrays = {name: jnp.asarray(ids, jnp.int32) for name, ids in arrays.items()}
    params = random_params.parameters(matcher, arrays, train=False)

    @jax.jit
    def all_forms(params):
        results = [*matcher.apply({"params": params}, arrays, method=Matcher.explain)]
        assert all(results.pop(1))
        for weights in (2**24, 1, 200, 500):  # all, a word, some words, and a piece with padding
            monkeypatch.setattr("attconv_jax.models.attentive_convolution._WEIGHTS", weights)
            results.append(matcher.apply({"params": params}, arrays, train=False)[0])
        return results

    explained, *others = all_forms(params)
    for logits in others:
        np.testing.assert_allclose(logits, explained, rtol=1e-5, atol=1e-6)


def test_no_array_of_all_pairs_of_words_is_made():
    matcher = Matcher(AttentiveConvolution(dim=6, attention="intra"), ROWS, 5, 3)
    arrays = {"first": jax.ShapeDtypeStruct((1, 12_000), jnp.int32)}
    params = random_params.shapes(matcher, {"first": np.ones((1, 4), np.int32)}, train=False)
    apply = lambda params, arrays: matcher.apply({"params": params}, arrays, train=False)[0]
    memory = jax.jit(apply).lower(params, arrays).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 12_000**2  # a quarter of one such array
