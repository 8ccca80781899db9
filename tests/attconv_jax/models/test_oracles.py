"""The comparison systems of pairs and reviews against loops in float64; their invariances and their
inputs beside word vectors."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.models.base import Text
from attconv_jax.models.bi_lstm import BiLSTM
from attconv_jax.models.cdssm import CDSSM, LetterTrigrams
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from attconv_jax.models.decomposable import Decomposable
from attconv_jax.models.paragraph_vector import ParagraphVector
from attconv_jax.models.recurrent_pooling import RecurrentPooling
from attconv_jax.models.tree_cnn import BinaryParse
from attconv_jax.models.word_count import WordCount, WordCounts
from common_jax.errors import UserError
from tests import random_params
from tests.attconv_jax.models import cases
from tests.attconv_jax.models.cases import LENGTHS, SYSTEMS, VOCABULARY, System, padded
from tests.attconv_jax.models.numpy_reference import distinct_words, trigrams
from tests.gradcheck import assert_slopes

# The gradients of sentence_rank take seconds to compile.
each_derived = pytest.mark.parametrize(
    "system",
    [
        pytest.param(system, id=name, marks=[pytest.mark.slow] * (name == "sentence_rank"))
        for name, system in SYSTEMS.items()
    ],
)
MIRRORED = (
    *("", "{}", "( {} {} )", "( ( {} {} ) {} )", "( {} ( {} ( {} {} ) ) )"),
    "( ( ( {} {} ) {} ) ( {} {} ) )",
)
FURTHER = {
    "vectors_of_any_norm": System(Decomposable(dim=4, unit_vectors=False)),
    "bi_lstm_of_one_text": System(BiLSTM(dim=4, hidden=6), texts=1),
    "internal_attention_of_two_texts": System(
        ConvolutionPooling(**cases.CONVOLUTIONS, pooling="attention", hidden=4), reach=1
    ),
    "mirrored_trees": dataclasses.replace(SYSTEMS["tree_cnn"], parses=MIRRORED),
    "one_weighted_mean": System(RecurrentPooling(**cases.SELF_ATTENTIVE | {"rows": 1}), texts=1),
}
IDLE = "weight_bias"  # added to all scores of a softmax


def answers(system, sentences, params):
    return [system.oracle(cases.row_of(sentences, at), params) for at in range(cases.PAIRS)]


@pytest.mark.parametrize("system", [*SYSTEMS.values(), *FURTHER.values()], ids=SYSTEMS | FURTHER)
def test_logits_and_weights_of_padded_texts_are_the_oracles(system):
    """Padding has large numbers and no weight."""
    logits, layers = system.explained
    by_hand = answers(system, system.sentences, random_params.exact(system.parameters))
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, [one.logits for one in by_hand], rtol=1e-5, atol=1e-5)
    maps = {
        (number, int(text), int(context)): np.array(weights)
        for number, layer in enumerate(layers)
        for text, context, weights in layer
    }
    for at, one in enumerate(by_hand):
        wanted = {
            (n, *pair): want for n, layer in enumerate(one.layers) for pair, want in layer.items()
        }
        assert {*maps} == {*wanted}
        for place, want in wanted.items():
            words = at, *(cases.words_of(text, at) for text in place[1:])
            np.testing.assert_allclose(maps[place][words], want, atol=1e-5)
            maps[place][words] = 0
    assert not any(weights.any() for weights in maps.values())


@each_derived
def test_gradients_and_losses_are_the_oracles(system):
    """Of two tables only the second is trained; spellings have no gradient."""
    (words, valid), params = padded(system.sentences), {**system.parameters}
    logits, losses, (to_params, to_words) = system.derived
    np.testing.assert_allclose(logits, system.explained[0], rtol=1e-6, atol=1e-6)
    by_hand = answers(system, system.sentences, random_params.exact(params))
    assert {*losses} == {*by_hand[0].losses}
    for name, got in losses.items():
        np.testing.assert_allclose(got, [one.losses[name] for one in by_hand], rtol=1e-5)
    assert not to_words[:-1].any()
    idle = {name: params.pop(name) for name in {IDLE} & {*params}}
    for name in idle:
        np.testing.assert_allclose(to_params[name], 0, atol=1e-5)
    gradients = {name: to_params[name] for name in params}, to_words[-1:] * valid[..., None]
    trained = words[-1:]
    if not system.reads_vectors:
        assert not to_words.any()
        trained, gradients = [], (gradients[0], [])

    def total(inputs):
        params, trained = inputs
        texts = [
            [
                [x[:length] for x, length in zip(text, lengths, strict=True)]
                for text, lengths in zip(table, LENGTHS, strict=False)
            ]
            for table in trained
        ]
        tables = [*system.sentences[: len(words) - len(texts)], *texts]
        results = answers(system, tables, {**params, **idle})
        further = sum(sum(one.losses.values()) for one in results)
        return np.vdot([one.logits for one in results], system.cotangent) + further

    assert_slopes(total, (params, trained), gradients)


def emptied(sentences):
    """Without the words of the first pair's first text and of the third pair's second text."""
    lost = (0, 0), (1, 2)
    kept = lambda text, at: 0 if (text, at) in lost else None
    return [
        [[x[: kept(n, at)] for at, x in enumerate(text)] for n, text in enumerate(table)]
        for table in sentences
    ]


HARD = {
    "texts without a word": emptied,
    "vectors of zeros": lambda sentences: cases.each(sentences, np.zeros_like),
    "the same text twice": lambda sentences: [[table[0]] * len(table) for table in sentences],
}


@pytest.mark.parametrize("change", HARD.values(), ids=HARD)
@each_derived
def test_all_numbers_are_finite(system, change):
    logits, losses, gradients = system.gradients(
        system.parameters, *padded(change(system.sentences))
    )
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((logits, losses, gradients)))
    if change is emptied:
        np.testing.assert_allclose(logits[[1, 3]], system.derived[0][[1, 3]], atol=1e-6)


WORDS, DIM, LABELS = 7, 3, 4

IDS = np.int32([[2, 5, 2, 0], [6, 0, 0, 0], [1, 2, 3, 4]])

TABLE = np.random.default_rng(0).normal(size=(WORDS, DIM)).astype(np.float32)

MODULE = ParagraphVector(steps=400, rate=0.05, decay=0.1).module(LABELS, jnp.float32)


def parameters(texts=1):
    random = np.random.default_rng(1)
    kernel = np.concatenate([random.normal(size=(DIM, LABELS))] * texts)
    output = {"kernel": kernel, "bias": random.normal(size=LABELS)}
    return jax.tree.map(np.float32, {"bias": random.normal(size=WORDS), "output": output})


def answer(params, table, *texts):
    def text(ids):
        ids = jnp.asarray(ids)
        vectors = jnp.where((ids != 0)[..., None], jnp.asarray(table)[ids], 0)
        return Text(ids, ids != 0, vectors, None, {}, {}, jnp.asarray(table))

    return MODULE.apply({"params": params}, [*map(text, texts)], train=False)


answer_at_once = jax.jit(answer)


def loss_of(d, words, table, bias):
    """L of a text, and its gradient and Hessian in d."""
    logits = table @ d + bias
    likely = np.exp(logits - logits.max())
    likely /= likely.sum()
    loss = -np.mean([np.log(likely[word]) for word in words]) + 0.05 * d @ d
    gradient = likely @ table - np.mean(table[words], 0) + 0.1 * d
    hessian = table.T @ (np.diag(likely) - np.outer(likely, likely)) @ table + 0.1 * np.eye(DIM)
    return loss, gradient, hessian


def test_vectors_are_those_that_predict_their_words_best():
    """The minimum by Newton's method, and the logits and L at it; of one text and of two."""
    params = parameters()
    logits, losses = answer_at_once(params, TABLE, IDS)
    two, own = answer_at_once(parameters(texts=2), TABLE, IDS, np.zeros_like(IDS))
    assert np.isfinite(two).all() and two.shape == (3, LABELS)
    table, bias = TABLE.astype(np.float64), params["bias"].astype(np.float64)
    for row, ids in enumerate(IDS):
        d, words = np.zeros(DIM), ids[ids > 0]
        for _ in range(50):
            _, gradient, hessian = loss_of(d, words, table, bias)
            d = d - np.linalg.solve(hessian, gradient)
        assert np.abs(gradient).max() < 1e-9
        expected = d @ params["output"]["kernel"] + params["output"]["bias"]
        np.testing.assert_allclose(logits[row], expected, atol=2e-3)
        loss = loss_of(d, words, table, bias)[0]
        np.testing.assert_allclose(losses["words"][row], loss, rtol=1e-4)
    np.testing.assert_allclose(own["words"], losses["words"], rtol=1e-5)


def test_labels_do_not_reach_words_and_words_do_not_reach_the_softmax():
    def sums(params, table):
        logits, losses = answer(params, table, IDS)
        return jnp.stack([logits.sum(), losses["words"].sum()])

    params, table = jax.jit(jax.jacrev(sums, (0, 1)))(parameters(), jnp.asarray(TABLE))
    of_labels, of_words = (jax.tree.map(lambda a, n=n: np.abs(a[n]).max(), params) for n in (0, 1))
    assert of_labels["bias"] == 0 and np.abs(table[0]).max() == 0
    assert of_words["output"]["kernel"] == 0 and of_words["bias"] > 0
    # at a fixed d, of L alone
    assert np.abs(table[1]).max() > 0


@pytest.mark.parametrize("word", VOCABULARY)
@pytest.mark.parametrize("rows", [7, 30_000])
def test_trigrams_are_counted_as_often_as_they_are_in_the_word(word, rows):
    array = LetterTrigrams(rows).encode(["x", word], {})
    assert array.shape == (2, 16)
    counts = np.bincount(array[1], minlength=rows + 1)
    counts[0] = 0
    np.testing.assert_array_equal(counts, trigrams(word, rows))


def test_equal_words_of_a_text_are_counted_once():
    texts = [[*words] for n in (1, 2, 3) for words in itertools.product("ab", repeat=n)]
    for pair in itertools.product([*texts, ["c"], ["c", "a"]], repeat=2):
        assert WordCounts().encode(pair, []).tolist() == [*distinct_words(*pair)]


def nested(children, words):
    """The tree whose root is the last node."""
    nodes = [None, *words]
    for left, right in children[:-1]:
        nodes.append((nodes[left], nodes[right]))
    assert not children[-1].any() and len(nodes) == 2 * len(words)
    return nodes[-1]


@pytest.mark.parametrize(
    ("parse", "words", "tree"),
    [
        ("no", "no", "no"),
        ("( No )", "no", "no"),
        ("( a b )", "a b", ("a", "b")),
        ("( ( a b ) c )", "a b c", (("a", "b"), "c")),
        ("( a ( b c ) )", "a b c", ("a", ("b", "c"))),
        (
            "( ( A Man ) ( ( is asleep ) . ) )",
            "a man is asleep .",
            (("a", "man"), (("is", "asleep"), ".")),
        ),
        (
            "( ( a ( b ( c d ) ) ) ( e f ) )",
            "a b c d e f",
            (("a", ("b", ("c", "d"))), ("e", "f")),
        ),
        ("( ( a -LRB- ) ( b ( -RRB- c ) ) )", "a ( b ) c", (("a", "("), ("b", (")", "c")))),
        ("( `` ( Go '' ) )", '" go "', ('"', ("go", '"'))),
        # One leaf that is several of our words, and leaves that are one word.
        (
            "( a ( well-known man ) )",
            "a well - known man",
            ("a", (("well", ("-", "known")), "man")),
        ),
        ("( ( I ( can not ) ) go )", "i cannot go", (("i", "cannot"), "go")),
        ("( do n't )", "don't", "don't"),
    ],
)
def test_a_parse_is_the_tree_of_our_words(parse, words, tree):
    children = BinaryParse().encode(words.split(), {"binary_parse": parse})
    assert nested(children, words.split()) == tree


BROKEN = ("", "( )", "( a", "a b )", "a b", "( a b c )", "( a c )", "( a )", "( a b ) )")


@pytest.mark.parametrize(
    ("words", "annotations", "message"),
    [
        *((["a", "b"], {"binary_parse": parse}, "is not one of this text") for parse in BROKEN),
        (["a"] * 3000, {"binary_parse": "( a " * 2999 + "a" + " )" * 2999}, "too deep"),
        (["a"], {}, "no binary_parse"),
    ],
    ids=[*BROKEN, "deep", "none"],
)
def test_what_is_no_parse_of_the_text_is_refused(words, annotations, message):
    with pytest.raises(UserError, match=message):
        BinaryParse().encode(words, annotations)


@pytest.mark.parametrize("model", [CDSSM(), WordCount()])
def test_a_score_is_of_two_labels(model):
    with pytest.raises(UserError, match=f"{type(model).__name__}: needs two labels, not 3"):
        model.module(3, jnp.float32)
