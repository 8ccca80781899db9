"""The complete AttentiveConvNet: parameters, equations, invariances."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.config import WordsConfig
from attconv_jax.data.text import TEXTS
from attconv_jax.models.attentive_convolution import AttentiveConvolution
from attconv_jax.models.base import Matcher
from attconv_jax.models.bi_cnn import BiCNN
from tests import random_params
from tests.attconv_jax import numpy_reference
from tests.gradcheck import assert_slopes

TABLE = WordsConfig(dim=4, rows=12)
SMALL = {"dim": 5, "dropout": 0.2}
LENGTHS, WIDTHS = ([5, 3, 0, 4], [2, 6, 3, 0]), (7, 6)  # some texts have no words
SCORES = np.random.default_rng(5).standard_normal((4, 3)).astype(np.float32)  # their cotangent
LIGHT = {"source": "states", "focus": "states", "beneficiary": "states"}
DEEP = {
    "layers": 2,
    "attention": "both",
    "energy": "additive",
    "focus": "phrase",
    "filter_width": 5,
}
AUTHORS = {"unmasked_softmax": True, "author_length": 11}
ONE_WAY = LIGHT | {"symmetric": False}


def batch(widths=WIDTHS):
    """The word ids of the texts, the same for all widths."""
    random = np.random.default_rng(0)
    texts = {}
    for name, lengths, width in zip(TEXTS, LENGTHS, widths, strict=True):
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
    """A model, its parameters, and a function to ((_, logits), gradients)."""
    model = Matcher(kind(**SMALL | changes), TABLE.rows, TABLE.dim, 3, dtype)
    params = random_params.parameters(model, first(texts), train=False)
    params["word_embedding"][0] = np.nan  # padding's vector, which must not be read

    def total(params, texts, cotangent):
        logits, losses = model.apply({"params": params}, texts, train=False)
        assert losses == {}
        return jnp.vdot(logits, cotangent), logits

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
        ({"kind": BiCNN}, BI_CNN),
        (LIGHT, BI_CNN + CONTEXT),
        (LIGHT | {"energy": "bilinear"}, BI_CNN + CONTEXT + D * D),
        (LIGHT | {"energy": "additive"}, BI_CNN + CONTEXT + 2 * D * D + D),
        ({}, ADVANCED),
        ({"attention": "intra"}, ADVANCED),
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
    kind = changes.get("kind", AttentiveConvolution)
    model = kind(**{name: value for name, value in changes.items() if name != "kind"})
    model = Matcher(model, 40_000, D, L)
    shapes = random_params.shapes(model, batch(), train=False)
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == count


def test_parameters_in_figures():
    assert (BI_CNN, BI_CNN + CONTEXT) == (12_635_403, 12_725_403)
    assert (ADVANCED, BOTH) == (13_717_203, 13_897_203)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        DEEP,
        AUTHORS,
        ONE_WAY,
        {"kind": BiCNN, "tanh_gain": 0.5, "layers": 2},
        {"attention": "intra", "energy": "bilinear", "texts": 1},
    ],
)
def test_logits_and_gradients_are_those_of_the_papers_equations(changes):
    """The oracle computes each example alone, without padding."""
    (model, params, judge), texts = build(**changes), changes.get("texts", 2)

    def by_hand(params):
        rows = [
            numpy_reference.model(row(at, texts), params, model.model)[0]
            for at in range(len(SCORES))
        ]
        return np.array(rows)

    (_, logits), gradients = judge(params, first(texts), SCORES)
    assert logits.dtype == jnp.float32
    np.testing.assert_allclose(logits, by_hand(random_params.exact(params)), rtol=1e-4, atol=1e-4)
    assert_slopes(lambda params: np.vdot(by_hand(params), SCORES), params, gradients)


@pytest.mark.parametrize("changes", [DEEP, AUTHORS], ids=["deep", "authors"])
def test_padding_and_order_change_neither_logits_nor_gradients(changes):
    """An unmasked softmax is over the same number of words in wide and narrow batches."""
    _, params, judge = build(**changes)
    (_, expected), gradients = judge(params, batch(), SCORES)
    order = np.array([2, 0, 3, 1])
    for widths in (WIDTHS, (5, 10)):
        texts = {name: ids[order] for name, ids in batch(widths).items()}
        (_, logits), attention = judge(params, texts, SCORES[order])
        np.testing.assert_allclose(logits, expected[order], rtol=1e-5, atol=1e-5)
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        jax.tree.map(close, attention, gradients)


@pytest.mark.parametrize("changes", [DEEP, ONE_WAY], ids=["deep", "one way"])
def test_explain_says_who_attended_to_whom(changes):
    model, params, judge = build(**changes)
    explain = functools.partial(model.apply, method="explain")
    logits, layers = jax.jit(explain)({"params": params}, batch())
    np.testing.assert_allclose(logits, judge(params, batch(), SCORES)[0][1], atol=1e-5)
    assert len(layers) == model.model.layers
    exact = random_params.exact(params)
    for at, lengths in enumerate(zip(*LENGTHS, strict=True)):
        _, expected = numpy_reference.model(row(at), exact, model.model)
        for attended, by_hand in zip(layers, expected, strict=True):
            got = {(int(a.text), int(a.context)): np.asarray(a.weights[at]) for a in attended}
            assert set(got) == set(by_hand)
            for pair, weights in got.items():
                n, m = (lengths[text] for text in pair)
                np.testing.assert_allclose(weights[:n, :m], by_hand[pair], atol=1e-5)
                words = np.arange(len(weights)) < n * (m > 0)  # that see any
                np.testing.assert_allclose(weights[:, :m].sum(axis=1), words, atol=1e-5)
                assert not weights[:, m:].any()


def test_dropout_is_a_function_of_its_key_and_off_in_evaluation():
    model, params, judge = build()

    def train(key):
        arrays = jax.tree.map(jnp.asarray, batch())
        variables = {"params": jax.tree.map(jnp.asarray, params)}
        return model.apply(variables, arrays, train=True, rngs={"dropout": key})[0]

    train = jax.jit(train)
    one, same, other = (np.asarray(train(jax.random.key(seed))) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    exact = np.asarray(judge(params, batch(), SCORES)[0][1])
    assert all((abs(a - b).max(axis=1) > 1e-3).all() for a, b in ((one, other), (one, exact)))
