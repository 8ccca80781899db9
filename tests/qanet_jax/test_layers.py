"""QANet's layers against NumPy written from the paper, with garbage in padding."""

import dataclasses
import math
import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qanet_jax.layers import ContextQueryAttention
from qanet_jax.models.qanet import Encoder, QANet
from tests import random_params
from tests.qanet_jax import numpy_reference
from tests.random_params import normal

CONFIG = QANet(dim=8, num_heads=2, char_dim=5)
GARBAGE = 1e3


def padded(lengths, width, seed=1):
    """[B, width, 8] with garbage after each length, and which positions are valid."""
    valid = np.arange(width) < np.array(lengths)[:, None]
    x = normal(len(lengths), width, CONFIG.dim, seed=seed)
    return np.where(valid[..., None], x, np.float32(GARBAGE)), valid


def run(module, params, *inputs, **options):
    call = lambda params, *inputs: module.apply({"params": params}, *inputs, **options)
    return np.asarray(jax.jit(call)(params, *inputs))


@pytest.mark.parametrize("features", [4, 3], ids=["both ways", "context to query alone"])
def test_context_query_attention(features):
    module = ContextQueryAttention(jnp.float32, query_to_context=features == 4)
    lengths = [(6, 3), (2, 5), (4, 0)]
    context, context_valid = padded([n for n, _ in lengths], 7)
    question, question_valid = padded([m for _, m in lengths], 5, seed=2)
    inputs = context, question, context_valid, question_valid
    params = random_params.parameters(module, *inputs)
    got = run(module, params, *inputs)
    for row, (n, m) in enumerate(lengths):
        c, q = (x[row, :k].astype(np.float64) for x, k in ((context, n), (question, m)))
        if m:
            want = numpy_reference.context_query(c, q, random_params.exact(params)["similarity"])
        else:  # nothing to attend to
            want = np.concatenate([c, np.zeros((n, 3 * CONFIG.dim))], axis=1)
        want = want[:, : features * CONFIG.dim]
        np.testing.assert_allclose(got[row, :n], want, rtol=1e-5, atol=1e-5)


def test_context_query_attention_starts_as_a_scaled_product():
    module, d = ContextQueryAttention(jnp.float32), CONFIG.dim
    c, q = normal(1, 4, d), normal(1, 3, d, seed=2)
    inputs = *map(jnp.asarray, (c, q)), jnp.ones((1, 4), bool), jnp.ones((1, 3), bool)
    params = nn.unbox(module.init(jax.random.key(0), *inputs)["params"])
    scores = c[0] @ q[0].T / np.sqrt(d)
    by_word = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    got = run(module, params, *inputs)[0, :, d : 2 * d]
    np.testing.assert_allclose(got, by_word @ q[0], rtol=1e-5, atol=1e-5)


def test_context_query_attention_makes_no_array_of_pairs_and_features():
    module = ContextQueryAttention(jnp.float32)
    n, m, d = 24, 12, CONFIG.dim
    inputs = normal(1, n, d), normal(1, m, d), np.ones((1, n), bool), np.ones((1, m), bool)
    params = random_params.parameters(module, *inputs)
    program = jax.jit(module.apply).lower({"params": params}, *inputs).as_text()
    shapes = re.findall(r"tensor<((?:\d+x)+)f32>", program)
    sizes = [math.prod(map(int, shape.split("x")[:-1])) for shape in shapes]
    assert n * m in sizes and max(sizes) < n * m * d


BLOCKS, CONVS = 2, 2
SUBLAYERS = BLOCKS * (CONVS + 2)
DEEP = dataclasses.replace(CONFIG, dropout=0.0, survival_prob=0.5, final_norm=False)


def test_each_sublayer_is_left_out_as_often_as_its_depth_says():
    """The l-th sub-layer adds 2^(l - 1) to the first feature of a word of zeros, where the encoding
    of position 0 is sin 0 = 0: the output shows which sub-layers were used."""
    module = Encoder(DEEP, BLOCKS, CONVS, kernel=3, dtype=jnp.float32)
    inputs = jnp.zeros((2, 1, DEEP.dim)), jnp.ones((2, 1), bool)
    params = jax.tree.map(np.zeros_like, random_params.parameters(module, *inputs, train=False))
    blocks, first = params["blocks"], 2.0 ** ((CONVS + 2) * np.arange(BLOCKS))
    last = [blocks[f"convolution_{n}"]["pointwise"] for n in range(CONVS)]
    last += [blocks["self_attention"]["out"], blocks["feed_forward"]["out"]]
    for n, p in enumerate(last):
        p["bias"][:, 0] = 2**n * first
    apply = lambda key: module.apply({"params": params}, *inputs, train=True, rngs={"dropout": key})
    draws = 4000
    out = np.asarray(jax.jit(jax.vmap(apply))(jax.random.split(jax.random.key(0), draws)))
    total = out[:, :, 0, 0].astype(int)
    np.testing.assert_array_equal(total[:, 0], total[:, 1])  # one draw for the batch
    present = total[:, :1] >> np.arange(SUBLAYERS) & 1
    survival = 1 - np.arange(1, SUBLAYERS + 1) / SUBLAYERS * (1 - DEEP.survival_prob)
    deviation = np.sqrt(survival * (1 - survival) / draws)
    assert (np.abs(present.mean(axis=0) - survival) < 4.5 * deviation).all()
    together = np.corrcoef(present.T) - np.eye(SUBLAYERS)  # they are dropped independently
    assert np.abs(together).max() < 4.5 / np.sqrt(draws)
    out = run(module, params, *inputs, train=False)
    np.testing.assert_array_equal(out[:, 0, 0], 2**SUBLAYERS - 1)
