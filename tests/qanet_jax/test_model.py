"""QANet: parameters, invariances and layers (equations: models/test_recurrent_readers.py)."""

import dataclasses
import functools
import math
import re

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qanet_jax.layers import ContextQueryAttention
from qanet_jax.models.base import WordsConfig
from qanet_jax.models.qanet import Encoder, QANet
from tests import random_params
from tests.families.tasks import NO_DROPOUT
from tests.qanet_jax import batches, numpy_reference
from tests.random_params import normal

WORDS = WordsConfig(dim=6, char_rows=9)
SMALL = QANet(
    dim=8,
    num_heads=2,
    char_dim=5,
    char_kernel=3,
    embedding_convs=1,
    embedding_kernel=3,
    model_blocks=2,
    model_convs=1,
    model_kernel=3,
)
CONTEXT, QUESTION = [7, 5, 3], [2, 4, 1]
WIDTH = 9  # length of the contexts, different from all other sizes


def batch(config=WORDS, context=CONTEXT, question=QUESTION):
    return batches.words(context, WIDTH, config), batches.words(question, 6, config, seed=1)


@functools.cache
def build(dtype=jnp.float32, rows=0, **changes):
    """A model, its parameters, and the compiled logits."""
    words = dataclasses.replace(WORDS, rows=rows)
    model = dataclasses.replace(SMALL, **changes).module(words, dtype)
    params = random_params.parameters(model, *batch(words), train=False)
    return model, params, jax.jit(functools.partial(model.apply, train=False))


def logits(apply, params, texts):
    return np.stack(apply({"params": params}, *texts))


# By hand, from section 2.2 and section 4.1.1: d = 128, p1 = 300, p2 = 200, 256 characters;
D, P1, P2, P = 128, 300, 200, 500
NORM, LINEAR = 2 * D, D * D + D
CHARACTERS, CHARACTER_CONVOLUTION, UNKNOWN = 256 * P2, 5 * P2 * P2 + P2, P1
HIGHWAY = 2 * 2 * (P * P + P)  # two layers of a gate and a change
PROJECTION = P * D + D
CONVOLUTION_7, CONVOLUTION_5 = NORM + 7 * D + LINEAR, NORM + 5 * D + LINEAR
ORDINARY_7, ORDINARY_5 = NORM + 7 * D * D + D, NORM + 5 * D * D + D
ATTENTION = NORM + 4 * LINEAR
FEED_FORWARD = NORM + 2 * LINEAR
FEED_FORWARD_4 = NORM + D * 4 * D + 4 * D + 4 * D * D + D
EMBEDDING_ENCODER = 4 * CONVOLUTION_7 + ATTENTION + FEED_FORWARD
MODEL_ENCODER = 7 * (2 * CONVOLUTION_5 + ATTENTION + FEED_FORWARD)  # shared by all passes
TRILINEAR, REDUCTION, POINTERS = 3 * D, 4 * D * D + D, 2 * 2 * D
BASE = (
    *(CHARACTERS, CHARACTER_CONVOLUTION, UNKNOWN, HIGHWAY, PROJECTION, EMBEDDING_ENCODER),
    *(TRILINEAR, REDUCTION, MODEL_ENCODER, POINTERS),
    2 * NORM,  # of the encoders' outputs
)


@pytest.mark.parametrize(
    "changes,more",
    [
        ({}, 0),
        ({"encoder_passes": 4, "positions": "block"}, 0),
        ({"char_pooling": "max"}, -CHARACTER_CONVOLUTION),
        ({"rows": 1000}, 1000 * P1 - UNKNOWN),
        ({"feed_forward_factor": 4}, 8 * (FEED_FORWARD_4 - FEED_FORWARD)),
        ({"convolution": "none"}, -4 * CONVOLUTION_7 - 14 * CONVOLUTION_5),
        (
            {"convolution": "ordinary"},
            4 * (ORDINARY_7 - CONVOLUTION_7) + 14 * (ORDINARY_5 - CONVOLUTION_5),
        ),
        ({"self_attention": False}, -8 * ATTENTION),
        ({"final_norm": False}, -2 * NORM),
    ],
)
def test_parameters_of_the_papers_model_and_of_its_ablations(changes, more):
    words = WordsConfig(rows=changes.get("rows", 0))
    fields = {name: value for name, value in changes.items() if name != "rows"}
    params = random_params.shapes(
        QANet(**fields).module(words, jnp.float32), *batch(words), train=False
    )
    total = sum(leaf.size for leaf in jax.tree.leaves(params))
    assert total == sum(BASE) + more
    if not more:
        assert total == 2_495_940


def test_a_row_of_padding_alone_leaves_the_gradient_finite():
    model, params, _ = build()
    texts = batch(context=[7, 0, 3], question=[2, 0, 1])

    def loss(params, key):
        pointers = model.apply({"params": params}, *texts, train=True, rngs={"dropout": key})
        computed = sum(-jax.nn.log_softmax(pointer)[:, 1] for pointer in pointers)
        return jnp.sum(computed, where=texts[0].valid.any(axis=1))

    loss, gradient = jax.jit(jax.value_and_grad(loss))(params, jax.random.key(0))
    assert np.isfinite(loss)
    for name, branch in gradient.items():
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(branch)]
        assert all(np.isfinite(leaf).all() for leaf in leaves), name
        assert any(leaf.any() for leaf in leaves), name


def test_training_keeps_no_array_of_word_pairs_of_self_attention():
    model, params, _ = build()
    texts = batch()
    key = jax.random.key(0)
    apply = lambda p: model.apply({"params": p}, *texts, train=True, rngs={"dropout": key})
    residuals = jax.tree.leaves(jax.eval_shape(lambda p: jax.vjp(apply, p)[1], params))
    assert len(residuals) > 20
    assert not [a.shape for a in residuals if a.shape[-2:] == (WIDTH, WIDTH)]


def test_each_pass_leaves_out_sublayers_of_its_own():
    """The two sub-layers of the model encoder add 1 and 2, and all other terms are zero: with S the
    sum of the sub-layers used in a pass, M0 = S0, M1 = S0 + S1 and M2 = S0 + S1 + S2."""
    rates = {**NO_DROPOUT, "survival_prob": 0.4}
    model, params, _ = build(model_blocks=1, convolution="none", final_norm=False, **rates)
    texts = batch()
    params = jax.tree.map(np.zeros_like, params)
    blocks = params["model_encoder"]["blocks"]
    blocks["self_attention"]["out"]["bias"][:, 0] = 1
    blocks["feed_forward"]["out"]["bias"][:, 0] = 2
    for pointer in ("start_pointer", "end_pointer"):  # S0 + 16 S1 and S0 + 16 (S1 + S2)
        params[pointer]["kernel"][[0, SMALL.dim], 0] = -15, 16
    draws = 2000
    apply = lambda key: model.apply({"params": params}, *texts, train=True, rngs={"dropout": key})
    start, end = jax.jit(jax.vmap(apply))(jax.random.split(jax.random.key(0), draws))
    first, (second, both) = np.asarray(start)[:, 0, 0] % 16, np.stack([start, end])[..., 0, 0] // 16
    residuals = np.stack([first, second, both - second]).astype(int)[..., None] >> np.arange(2) & 1
    survival = np.array([0.7, 0.4])  # 1 - l / 2 * (1 - 0.4)
    bound = 4.5 * np.sqrt(survival * (1 - survival) / draws)
    assert (np.abs(residuals.mean(axis=1) - survival) < bound).all()
    together = np.corrcoef(residuals.transpose(0, 2, 1).reshape(6, draws)) - np.eye(6)
    assert np.abs(together).max() < 4.5 / np.sqrt(draws)


GARBAGE = 1e3


def padded(lengths, width, seed=1):
    """[B, width, 8] with garbage after each length, and which positions are valid."""
    valid = np.arange(width) < np.array(lengths)[:, None]
    x = normal(len(lengths), width, SMALL.dim, seed=seed)
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
            want = np.concatenate([c, np.zeros((n, 3 * SMALL.dim))], axis=1)
        want = want[:, : features * SMALL.dim]
        np.testing.assert_allclose(got[row, :n], want, rtol=1e-5, atol=1e-5)


def test_context_query_attention_starts_as_a_scaled_product():
    module, d = ContextQueryAttention(jnp.float32), SMALL.dim
    c, q = normal(1, 4, d), normal(1, 3, d, seed=2)
    inputs = *map(jnp.asarray, (c, q)), jnp.ones((1, 4), bool), jnp.ones((1, 3), bool)
    params = nn.unbox(module.init(jax.random.key(0), *inputs)["params"])
    scores = c[0] @ q[0].T / np.sqrt(d)
    by_word = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    got = run(module, params, *inputs)[0, :, d : 2 * d]
    np.testing.assert_allclose(got, by_word @ q[0], rtol=1e-5, atol=1e-5)


def test_context_query_attention_makes_no_array_of_pairs_and_features():
    module = ContextQueryAttention(jnp.float32)
    n, m, d = 24, 12, SMALL.dim
    inputs = normal(1, n, d), normal(1, m, d), np.ones((1, n), bool), np.ones((1, m), bool)
    params = random_params.parameters(module, *inputs)
    program = jax.jit(module.apply).lower({"params": params}, *inputs).as_text()
    shapes = re.findall(r"tensor<((?:\d+x)+)f32>", program)
    sizes = [math.prod(map(int, shape.split("x")[:-1])) for shape in shapes]
    assert n * m in sizes and max(sizes) < n * m * d


BLOCKS, CONVS = 2, 2

SUBLAYERS = BLOCKS * (CONVS + 2)

DEEP = dataclasses.replace(SMALL, dropout=0.0, survival_prob=0.5, final_norm=False)


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
