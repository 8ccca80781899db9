"""The complete AttentiveConvNet: parameters, equations, invariances; attention and additive
energies in pieces, which make no array of all pairs."""

import functools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.config import WordsConfig
from attconv_jax.data.text import TEXTS
from attconv_jax.layers import Energy
from attconv_jax.models.attentive_convolution import AttentiveConvolution
from attconv_jax.models.base import Matcher
from attconv_jax.models.bi_cnn import BiCNN
from tests import random_params
from tests.attconv_jax import numpy_reference
from tests.gradcheck import assert_slopes
from tests.random_params import normal

TABLE = WordsConfig(dim=4, rows=12)
SMALL = {"dim": 5, "dropout": 0.2}
LENGTHS, WIDTHS = ([5, 3, 0, 4], [2, 6, 3, 0]), (7, 6)  # some texts have no words
SCORES = np.random.default_rng(5).standard_normal((4, 3)).astype(np.float32)  # their cotangent
LIGHT = {"source": "states", "focus": "states", "beneficiary": "states"}
BOTH_WAYS = {"attention": "both"}
ADDITIVE = {"energy": "additive"}
BILINEAR = {"energy": "bilinear"}
AUTHORS = {"unmasked_softmax": True, "author_length": 11}
DEEP = {"layers": 2, **BOTH_WAYS, **ADDITIVE, "focus": "phrase", "filter_width": 5}
OTHER_PARTS = {"source": "phrase", "focus": "multigranular", "beneficiary": "multigranular"}
CASES = {
    "advanced": {},
    "advanced, bilinear, phrases of 5": {**BILINEAR, "phrase_width": 5},
    "light, one way": LIGHT | {"symmetric": False},
    "light, bilinear, width 1": LIGHT | BILINEAR | {"filter_width": 1},
    "light, additive, width 5": LIGHT | ADDITIVE | {"filter_width": 5},
    "intra, additive": {"attention": "intra", **ADDITIVE},
    "intra, bilinear, one text": {"attention": "intra", **BILINEAR, "texts": 1},
    "without tri-hidden": {"source": "unigram", "focus": "unigram", **BOTH_WAYS},
    "other parts": OTHER_PARTS | ADDITIVE,
    "narrower focus, without gate": {
        **{"focus": "states", "beneficiary": "phrase", "gate": False},
        **BILINEAR,
    },
    "one way, gentler": {**BOTH_WAYS, "symmetric": False, "tanh_gain": 0.5},
    "deep": DEEP,
    "unmasked": AUTHORS,
    "unmasked, longer than the authors' texts": {**AUTHORS, "author_length": 4, **BOTH_WAYS},
    "bi-CNN": {"kind": BiCNN, "tanh_gain": 0.5, "layers": 2},
}
COMBINED = {"advanced, bilinear, phrases of 5", "intra, additive"}  # whose parts are in others


def batch():
    """The word ids of the texts."""
    random = np.random.default_rng(0)
    texts = {}
    for name, lengths, width in zip(TEXTS, LENGTHS, WIDTHS, strict=True):
        ids = random.integers(1, TABLE.rows, (len(lengths), 20))[:, :width]
        inside = np.arange(width) < np.array(lengths)[:, None]
        texts[name] = np.where(inside, ids, 0).astype(np.int32)
    return texts


def first(texts):
    """The batch's first or both texts."""
    return {name: batch()[name] for name in TEXTS[:texts]}


def row(at, texts=2):
    """An example's texts without padding, as the oracle reads them."""
    columns = zip(batch().values(), LENGTHS, strict=True)
    return [ids[at, : lengths[at]] for ids, lengths in columns][:texts]


@functools.cache
def build(kind=AttentiveConvolution, dtype=jnp.float32, texts=2, **changes):
    """A model, its parameters, and a function to ((_, (logits, explained)), gradients)."""
    model = Matcher(kind(**SMALL | changes), TABLE.rows, TABLE.dim, 3, dtype)
    params = random_params.parameters(model, first(texts), train=False)
    params["word_embedding"][0] = np.nan  # padding's vector, which must not be read

    def total(params, texts, cotangent):
        logits, losses = model.apply({"params": params}, texts, train=False)
        assert losses == {}
        explained = model.apply({"params": params}, texts, method="explain")
        return jnp.vdot(logits, cotangent), (logits, explained)

    return model, params, jax.jit(jax.value_and_grad(total, has_aux=True))


# By hand, from sections 3 and 4.1: 300 features throughout, 40,000 words and three labels.
D, L = 300, 3
WORDS = 40_000 * D
UNIGRAM = 2 * (D * D + D)  # Eq. 7 and 8
TRIGRAM = 2 * (3 * D * D + D)
WINDOW = 3 * D * D + D  # W1 and b of Eq. 6
CONTEXT, WIDE_CONTEXT = D * D, 2 * D * D  # W2, over states and over both granularities
COMPOSED = 3 * D  # [r_x, r_y, r_x * r_y]
HEAD = COMPOSED * D + D + D * D + D + (COMPOSED + D + D) * L + L
BI_CNN = WORDS + WINDOW + HEAD
ADVANCED = BI_CNN + UNIGRAM + TRIGRAM + UNIGRAM + WIDE_CONTEXT  # one f_mgran, and f_bene
BOTH = ADVANCED + WIDE_CONTEXT


@pytest.mark.parametrize(
    "changes,count",
    [
        (LIGHT | {"energy": "bilinear"}, BI_CNN + CONTEXT + D * D),
        (LIGHT | {"energy": "additive"}, BI_CNN + CONTEXT + 2 * D * D + D),
        ({"energy": "bilinear"}, ADVANCED + 4 * D * D),
        ({"energy": "additive"}, ADVANCED + 2 * 4 * D * D + 2 * D),
        ({"symmetric": False}, ADVANCED),
        ({"layers": 2}, 2 * ADVANCED - WORDS - HEAD),
        ({"attention": "both"}, BOTH),
        # Table 4: without tri-hidden, without uni-hidden, without gate
        (
            {"attention": "both", "source": "unigram", "focus": "unigram"},
            BOTH - TRIGRAM - 2 * CONTEXT,
        ),
        (
            {"attention": "both", "source": "phrase", "focus": "phrase"},
            BOTH - UNIGRAM - 2 * CONTEXT,
        ),
        ({"attention": "both", "gate": False}, BOTH - (UNIGRAM + TRIGRAM + UNIGRAM) // 2),
    ],
)
def test_parameters_of_the_papers_models_and_of_their_ablations(changes, count):
    """The systems' own are in models/test_sizes.py."""
    model = Matcher(AttentiveConvolution(**changes), 40_000, D, L)
    shapes = random_params.shapes(model, batch(), train=False)
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == count


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(changes, id=name, marks=[pytest.mark.slow] * (name in COMBINED))
        for name, changes in CASES.items()
    ],
)
def test_logits_gradients_and_weights_are_those_of_the_papers_equations(changes):
    """The oracle computes each example alone, without padding, which has no weight."""
    model, params, judge = build(**changes)
    texts = changes.get("texts", 2)

    def by_hand(params):
        rows = (row(at, texts) for at in range(len(SCORES)))
        return [numpy_reference.model(own, params, model.model) for own in rows]

    (_, (logits, (explained, layers))), gradients = judge(params, first(texts), SCORES)
    answers = by_hand(random_params.exact(params))
    assert logits.dtype == jnp.float32
    for got in (logits, explained):
        want = [answer for answer, _ in answers]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)

    # the weights of each layer, by the text that looks and the one that is looked at
    for at, (_, attended) in enumerate(answers):
        for maps, weights in zip(layers, attended, strict=True):
            got = {(int(a.text), int(a.context)): np.array(a.weights[at]) for a in maps}
            assert {*got} == {*weights}
            for pair, expected in weights.items():
                inside = got[pair][tuple(map(slice, expected.shape))]
                np.testing.assert_allclose(inside, expected, rtol=1e-4, atol=1e-5)
                inside[:] = 0
                assert not got[pair].any()

    total = lambda params: np.vdot([answer for answer, _ in by_hand(params)], SCORES)
    assert_slopes(total, params, gradients)


def test_dropout_is_a_function_of_its_key_and_off_in_evaluation():
    model, params, judge = build()
    inputs = jax.tree.map(jnp.asarray, ({"params": params}, batch()))
    train = jax.jit(lambda key: model.apply(*inputs, train=True, rngs={"dropout": key})[0])
    one, same, other = (np.asarray(train(jax.random.key(seed))) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    exact = np.asarray(judge(params, batch(), SCORES)[0][1][0])
    assert all((abs(a - b).max(axis=1) > 1e-3).all() for a, b in ((one, other), (one, exact)))


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
