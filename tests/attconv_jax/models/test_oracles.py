"""The comparison systems of pairs and reviews against loops in float64, and their invariances."""

import dataclasses

import jax
import numpy as np
import pytest

from attconv_jax.models.bi_lstm import BiLSTM
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from attconv_jax.models.decomposable import Decomposable
from attconv_jax.models.recurrent_pooling import RecurrentPooling
from tests import random_params
from tests.attconv_jax.models import cases
from tests.attconv_jax.models.cases import LENGTHS, SYSTEMS, System, padded
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
