"""QANet, BiDAF and QANet's recurrent systems against NumPy loops in float64 over one text without
padding, written from the papers; and their invariances.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from qanet_jax.layers import ATTENTION
from qanet_jax.models.base import WordsConfig
from qanet_jax.models.bidaf import BiDAF
from qanet_jax.models.qanet import QANet
from qanet_jax.models.rnn import RecurrentReader
from tests import random_params
from tests.families.tasks import NO_DROPOUT
from tests.numpy_reference import affine, both_directions, lstm
from tests.qanet_jax import batches, numpy_reference
from tests.qanet_jax.test_model import SMALL

WORDS = WordsConfig(dim=6, char_rows=9)
CONTEXT, QUESTION, WIDTHS = [7, 5, 1], [2, 4, 1], (9, 6)
READERS = {
    "bidaf": BiDAF(char_dim=3, char_filters=4, char_kernel=3, hidden=5),
    "rnn1": RecurrentReader(dim=8, char_dim=5, char_kernel=3, lstm_size=3),
    "rnn2": RecurrentReader(dim=8, char_dim=5, char_kernel=3, lstm_size=3, lstm_layers=2),
    "per block": RecurrentReader(
        dim=8, char_dim=5, char_kernel=3, lstm_size=3, lstm_per="block", model_blocks=2
    ),
}
CHANGES = {
    "qanet": {},
    "qanet, four passes": {"encoder_passes": 4, "positions": "block", "char_pooling": "max"},
    "qanet, no convolution": {"convolution": "none"},
    "qanet, ordinary convolution": {"convolution": "ordinary", "char_kernel": 5},
    "qanet, no attention": {"self_attention": False},
    "qanet, wide": {"positions": "block", "feed_forward_factor": 3, "final_norm": False},
    "qanet, scaled": {"scale_sublayers": True, "survival_prob": 0.6},
}
READERS |= {name: dataclasses.replace(SMALL, **changes) for name, changes in CHANGES.items()}
TRAINED = ("bidaf", "rnn1", "rnn2", "per block", "qanet", "qanet, four passes")
each_kind = pytest.mark.parametrize(
    "name", ["bidaf", "rnn2", "per block", "qanet", pytest.param("rnn1", marks=pytest.mark.slow)]
)


def texts_of(words=WORDS, question=QUESTION):
    context = batches.words(CONTEXT, WIDTHS[0], words)
    return context, batches.words(question, WIDTHS[1], words, seed=1)


@functools.cache
def build(name, rows=0):
    words = dataclasses.replace(WORDS, rows=rows)
    module = READERS[name].module(words, jnp.float32)
    params = random_params.parameters(module, *texts_of(words), train=False)
    return module, params, jax.jit(functools.partial(module.apply, train=False))


def both_lstms(x, p):
    return both_directions(x, p, lambda x, own: lstm(x, own)[0])


def bidaf(context, question, p, config):
    """Section 2 of Seo et al. 2017; padding and unknown words have vectors of zeros."""

    def embedded(ids, characters, vectors):
        rows = []
        for at, word in enumerate(ids):
            x_w = vectors[at] if vectors is not None else p["embedding"]["word_embedding"][word]
            letters = [
                p["embedding"]["character_embedding"][c] if c else np.zeros(config.char_dim)
                for c in characters[at]
            ]
            own = p["embedding"]["character_convolution"]
            best, real = np.zeros(config.char_filters), (np.array(characters[at]) != 0).sum()
            for start in range(len(letters) - config.char_kernel + 1):
                if start < real:
                    window = np.array(letters[start : start + config.char_kernel])
                    value = np.einsum("kd,kdf->f", window, own["kernel"]) + own["bias"]
                    best = np.maximum(best, value)
            x = np.concatenate([best, x_w])
            for name in ("highway_0", "highway_1"):
                x = numpy_reference.highway(x, p["embedding"][name])
            rows.append(x)
        return np.array(rows)

    h, u = (both_lstms(embedded(*text), p["contextual"]) for text in (context, question))
    w_h, w_u, w_m = p["similarity"]
    s = np.array([[w_h @ a + w_u @ b + w_m @ (a * b) for b in u] for a in h])
    s = s + p["similarity_bias"]
    attended = np.array([softmax(row) @ u for row in s])
    summary = softmax(s.max(axis=1)) @ h
    g = np.concatenate([h, attended, h * attended, h * summary[None]], axis=1)
    m = both_lstms(both_lstms(g, p["modeling_0"]), p["modeling_1"])
    start = affine(np.concatenate([m, g], axis=1), p["start_pointer"])[:, 0]
    a = np.repeat((softmax(start) @ m)[None], len(m), axis=0)
    m2 = both_lstms(np.concatenate([g, m, a, m * a], axis=1), p["end_encoder"])
    return start, affine(np.concatenate([m2, g], axis=1), p["end_pointer"])[:, 0]


def recurrent(context, question, p, config):
    """QANet's layers 1, 3 and 5, with stacks of LSTMs as layers 2 and 4."""

    def encoder(x, p):
        for block in range(sum(name.startswith("projection") for name in p)):
            for layer in range(config.lstm_layers):
                x = both_lstms(x, p[f"lstm_{block}_{layer}"])
            x = affine(x, p[f"projection_{block}"])
        return x

    c, q = (
        encoder(
            affine(
                numpy_reference.embedding(*text, p["embedding"], config), p["embedding_projection"]
            ),
            p["embedding_encoder"],
        )
        for text in (context, question)
    )
    x = numpy_reference.context_query(c, q, p["context_query_attention"]["similarity"])
    outputs = [affine(x, p["context_query_projection"])]
    for _ in range(3):
        outputs.append(encoder(outputs[-1], p["model_encoder"]))
    pointer = lambda name, last: (
        np.concatenate([outputs[1], outputs[last]], axis=1) @ p[name]["kernel"]
    )[:, 0]
    return pointer("start_pointer", 2), pointer("end_pointer", 3)


ORACLES = {BiDAF: bidaf, RecurrentReader: recurrent, QANet: numpy_reference.model}
PLACES = [*((name, 0) for name in READERS), *((name, 20) for name in TRAINED)]


@pytest.mark.parametrize(("name", "rows"), PLACES)
def test_logits_are_those_of_the_paper_for_each_text_alone(name, rows):
    """With fixed vectors, and with a trained table of `rows`."""
    module, params, apply = build(name, rows)
    texts = texts_of(module.words)
    start, end = apply({"params": params}, *texts)
    assert start.dtype == np.float32
    reader = READERS[name]
    tolerance = 1e-4 if name in CHANGES else 2e-4
    for row, length in enumerate(CONTEXT):
        alone = [batches.text(text, row) for text in texts]
        expected = ORACLES[type(reader)](*alone, random_params.exact(params), reader)
        for actual, logits in zip((start, end), expected, strict=True):
            inside = actual[row, :length]
            np.testing.assert_allclose(inside, logits, rtol=tolerance, atol=tolerance)
            assert (np.asarray(actual[row, length:]) < -1e8).all()


@pytest.mark.parametrize("rows", [0, 20])
@pytest.mark.parametrize("name", ["qanet", "qanet, four passes"])
def test_training_without_dropout_has_the_logits_of_evaluation(name, rows):
    """Which has the products of characters from a table."""
    module, params, apply = build(name, rows)
    plain = dataclasses.replace(READERS[name], **NO_DROPOUT).module(module.words, jnp.float32)
    texts = texts_of(module.words)
    trained = jax.jit(functools.partial(plain.apply, train=True))({"params": params}, *texts)
    for got, want in zip(trained, apply({"params": params}, *texts), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@each_kind
def test_what_stands_in_padding_changes_neither_logits_nor_gradients(name):
    module, params, _ = build(name)
    texts = texts_of()
    filled = lambda text: jnp.where(text.valid[..., None], text.vectors, 9.0)
    changed = [dataclasses.replace(text, vectors=filled(text)) for text in texts]

    @jax.jit
    @jax.value_and_grad
    def value(params, texts):
        start, end = module.apply({"params": params}, *texts, train=False)
        return sum(jax.nn.log_softmax(x)[:, 0].sum() for x in (start, end))

    results = [value(params, each) for each in ([*texts], changed)]
    jax.tree.map(np.testing.assert_array_equal, *results)


@each_kind
def test_dropout_changes_training_alone(name):
    module, params, _ = build(name)
    train = jax.jit(functools.partial(module.apply, train=True))
    keys = ({"dropout": jax.random.key(number)} for number in (0, 1))
    one, two = (train({"params": params}, *texts_of(), rngs=key)[0] for key in keys)
    assert np.abs(np.asarray(one - two)[0, : CONTEXT[0]]).max() > 1e-3


def test_bidafs_attention_to_a_question():
    """A question of one word has all of it; without the weights of the question's words it is
    uniform."""
    module, params, _ = build("bidaf")
    uniform = {**params, "similarity": params["similarity"] * np.float32([[1], [0], [0]])}
    for own, weights in ((params, [[1.0]] * 3), (uniform, [[1 / 2] * 2, [1 / 4] * 4, [1.0]])):
        apply = functools.partial(module.apply, train=False, mutable=[ATTENTION])
        _, sown = jax.jit(apply)({"params": own}, *texts_of(question=[len(w) for w in weights]))
        (rows,) = sown[ATTENTION]["row"]
        for row, expected in enumerate(weights):
            want = np.pad(expected, (0, WIDTHS[1] - len(expected)))
            np.testing.assert_array_equal(rows[row], np.broadcast_to(want, rows[row].shape))


REST = 1_384_388  # of QANet, without its encoders
KNOWN = {1: 1_976_516, 2: 2_764_996, 3: 3_553_476}


@pytest.mark.parametrize("layers", KNOWN)
@pytest.mark.parametrize("per,times", [("encoder", 1), ("block", 4)])
def test_sizes_of_the_twins(layers, per, times):
    """At the paper's sizes; passes of the model encoder share its parameters."""
    config = RecurrentReader(lstm_layers=layers, lstm_per=per)
    assert parameters(config, WordsConfig()) == REST + times * (KNOWN[layers] - REST)


def test_bidafs_size():
    """8 for each of 256 characters, and its layers'; "2.6M" in its paper."""
    assert parameters(BiDAF(), WordsConfig(dim=100)) == 8 * 256 + 2_570_703


def parameters(config, words):
    shapes = random_params.shapes(config.module(words, jnp.float32), *texts_of(words), train=False)
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))
