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


@pytest.mark.parametrize("changes", [DEEP, AUTHORS], ids=["deep", "authors"])
def test_padding_and_order_change_neither_logits_nor_gradients(changes):
    """An unmasked softmax is over the same number of words in wide and narrow batches."""
    _, params, judge = build(**changes)
    (_, (expected, _)), gradients = judge(params, batch(), SCORES)
    order = np.array([2, 0, 3, 1])
    for widths in (WIDTHS, (5, 10)):
        texts = {name: ids[order] for name, ids in batch(widths).items()}
        (_, (logits, _)), others = judge(params, texts, SCORES[order])
        np.testing.assert_allclose(logits, expected[order], rtol=1e-5, atol=1e-5)
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        jax.tree.map(close, others, gradients)


def test_dropout_is_a_function_of_its_key_and_off_in_evaluation():
    model, params, judge = build()

    def train(key):
        arrays = jax.tree.map(jnp.asarray, batch())
        variables = {"params": jax.tree.map(jnp.asarray, params)}
        return model.apply(variables, arrays, train=True, rngs={"dropout": key})[0]

    train = jax.jit(train)
    one, same, other = (np.asarray(train(jax.random.key(seed))) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    exact = np.asarray(judge(params, batch(), SCORES)[0][1][0])
    assert all((abs(a - b).max(axis=1) > 1e-3).all() for a, b in ((one, other), (one, exact)))
