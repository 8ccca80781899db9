"""The comparison systems of pairs and reviews against loops in float64, and what padding and
numbers that are hard on floating point may not do."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.models.base import POOLED
from attconv_jax.models.bi_lstm import BiLSTM
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from attconv_jax.models.decomposable import Decomposable
from attconv_jax.models.recurrent_pooling import RecurrentPooling
from tests import random_params
from tests.attconv_jax.models.cases import (
    CONVOLUTIONS,
    COTANGENT,
    DIM,
    LABELS,
    LENGTHS,
    PAIRS,
    SELF_ATTENTIVE,
    SYSTEMS,
    System,
    each,
    padded,
    row_of,
)
from tests.gradcheck import assert_slopes

each_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
FURTHER = {
    "vectors_of_any_norm": System(Decomposable(dim=4, unit_vectors=False)),
    "bi_lstm_of_one_text": System(BiLSTM(dim=4, hidden=6), texts=1),
    "internal_attention_of_two_texts": System(
        ConvolutionPooling(**CONVOLUTIONS, pooling="attention", hidden=4)
    ),
    "one_weighted_mean": System(RecurrentPooling(**SELF_ATTENTIVE | {"rows": 1}), texts=1),
}
WITHOUT_EFFECT = "weight_bias"  # a number added to all scores of a softmax


def answers(system, sentences, params):
    """The oracle's, of each pair."""
    return [system.oracle(row_of(sentences, at), params) for at in range(PAIRS)]


@pytest.mark.parametrize("system", [*SYSTEMS.values(), *FURTHER.values()], ids=SYSTEMS | FURTHER)
def test_logits_and_weights_of_padded_texts_are_the_oracles(system):
    """Beyond the words all weights are zero."""
    logits, layers = system.explained
    by_hand = answers(system, system.sentences, random_params.exact(system.parameters))
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, [one.logits for one in by_hand], rtol=1e-5, atol=1e-5)
    assert len(layers) == len(by_hand[0].layers)
    for n, layer in enumerate(layers):
        maps = {(int(text), int(context)): np.array(weights) for text, context, weights in layer}
        for at, one in enumerate(by_hand):
            assert {*maps} == {*one.layers[n]}
            for (text, context), want in one.layers[n].items():
                got = maps[text, context][at]
                assert len(want) == (len(got) if text == POOLED else LENGTHS[text][at])
                assert want.shape[1] == LENGTHS[context][at]
                inside = got[: len(want), : want.shape[1]]
                np.testing.assert_allclose(inside, want, atol=1e-5)
                inside[...] = 0
                assert not got.any()


@each_system
def test_gradients_and_losses_are_the_oracles(system):
    """Of logits times numbers and the further losses; of several tables the last one is trained."""
    (words, valid), params = padded(system.sentences), {**system.parameters}
    logits, losses, (to_params, to_words) = system.derived
    np.testing.assert_allclose(logits, system.explained[0], rtol=1e-6, atol=1e-6)
    by_hand = answers(system, system.sentences, random_params.exact(params))
    assert {*losses} == {*by_hand[0].losses}
    for name, got in losses.items():
        np.testing.assert_allclose(got, [one.losses[name] for one in by_hand], rtol=1e-5)
    assert not to_words[:-1].any()
    idle = {name: params.pop(name) for name in {WITHOUT_EFFECT} & {*params}}
    for name in idle:
        np.testing.assert_allclose(to_params[name], 0, atol=1e-5)

    def total(inputs):
        params, trained = inputs
        rows = [[x[:length] for x, length in zip(text, lengths, strict=True)] for text, lengths in zip(trained, LENGTHS)]
        results = answers(system, [*system.sentences[:-1], rows], {**params, **idle})
        sums = (one.logits @ c + sum(one.losses.values()) for one, c in zip(results, COTANGENT))
        return sum(sums)

    assert_slopes(
        total,
        (params, words[-1]),
        ({name: to_params[name] for name in params}, to_words[-1] * valid[..., None]),
    )
