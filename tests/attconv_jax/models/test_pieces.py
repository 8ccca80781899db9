"""Attention in pieces: the numbers of attention at once, for texts of any length."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.models import attentive_convolution
from attconv_jax.models.attentive_convolution import AttentiveConvolution
from attconv_jax.models.base import Matcher

ROWS = 30


@pytest.mark.parametrize("attention", ["inter", "intra", "both"])
@pytest.mark.parametrize("features", ["states", "multigranular"])
def test_pieces_give_the_same_numbers(attention, features, monkeypatch):
    config = AttentiveConvolution(dim=6, attention=attention, source=features, focus=features)
    matcher = Matcher(config, ROWS, 5, 3)
    random = np.random.default_rng(0)
    arrays = {
        "first": random.integers(1, ROWS, (2, 37)),
        "second": random.integers(1, ROWS, (2, 23)),
    }
    arrays["first"][1, 20:] = arrays["second"][0, 11:] = 0
    arrays = {name: jnp.asarray(ids, jnp.int32) for name, ids in arrays.items()}
    params = matcher.init(jax.random.key(0), arrays, train=False)
    expected, _ = matcher.apply(params, arrays, train=False)
    for weights in (1, 200, 500):  # a word, some words, and a piece with padding
        monkeypatch.setattr(attentive_convolution, "_WEIGHTS", weights)
        in_pieces, _ = matcher.apply(params, arrays, train=False)
        np.testing.assert_allclose(in_pieces, expected, rtol=1e-5, atol=1e-6)
    explained, layers = matcher.apply(params, arrays, method=Matcher.explain)
    np.testing.assert_allclose(explained, expected, rtol=1e-5, atol=1e-6)
    assert all(layer for layer in layers)


def test_no_array_of_all_pairs_of_words_is_made():
    matcher = Matcher(AttentiveConvolution(dim=6, attention="intra"), ROWS, 5, 3)
    arrays = {"first": jax.ShapeDtypeStruct((1, 12_000), jnp.int32)}
    params = jax.eval_shape(
        lambda: matcher.init(jax.random.key(0), {"first": jnp.ones((1, 4), int)}, train=False)
    )
    apply = jax.jit(lambda params, arrays: matcher.apply(params, arrays, train=False)[0])
    memory = apply.lower(params, arrays).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 12_000**2  # a quarter of one such array
