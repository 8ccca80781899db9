"""TriviaQA's two baselines against loops over one text without padding."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from common_jax.masks import MASKED
from qanet_jax.models.base import WordsConfig
from qanet_jax.models.candidates import Candidates, Kinds
from tests import random_params
from tests.qanet_jax import batches

WORDS = WordsConfig(dim=6, char_rows=5)
CONTEXT, QUESTION, WIDTHS = [12, 7, 1], [2, 4, 1], (14, 6)
KINDS = np.random.default_rng(3).choice([1, 1, 2, 3], (3, 14, 1)).astype(np.int32)


def texts():
    context = batches.words(CONTEXT, WIDTHS[0], WORDS, letters=3)
    kinds = np.where(np.asarray(context.valid)[..., None], KINDS, 0)
    context = dataclasses.replace(context, inputs={"kinds": jnp.asarray(kinds)})
    question = batches.words(QUESTION, WIDTHS[1], WORDS, letters=3, seed=1)
    return context, question


@functools.cache
def build(choice):
    module = Candidates(choice=choice, near=2).module(WORDS, jnp.float32)
    params = random_params.parameters(module, *texts(), train=False)
    return params, jax.jit(functools.partial(module.apply, train=False))


def runs_of(kinds):
    """The first and last word of each longest run of names and numbers."""
    groups = itertools.groupby(range(len(kinds)), lambda at: kinds[at] > 1)
    runs = [[*places] for is_candidate, places in groups if is_candidate]
    return [(places[0], places[-1]) for places in runs]


def words_of(text, row):
    length = int((text.ids[row] != 0).sum())
    return [tuple(np.asarray(text.characters[row, at])) for at in range(length)]


def test_kinds_of_words():
    words = ["Ada", "was", "born", "1815", ".", "Élan"]
    assert Kinds().encode(words, {})[:, 0].tolist() == [2, 1, 1, 3, 1, 2]
    assert Kinds().encode([], {}).shape == (0, 1)


@functools.cache
def logits(choice):
    params, apply = build(choice)
    return [np.asarray(x) for x in apply({"params": params}, *texts())]


def test_the_classifier_scores_every_candidate():
    context, question = texts()
    exact = random_params.exact(build("classifier")[0])
    start, end = logits("classifier")
    for row, length in enumerate(CONTEXT):
        words, others = words_of(context, row), words_of(question, row)
        kinds = KINDS[row, :length, 0]
        vectors = np.asarray(question.vectors[row, : len(others)], np.float64)
        wanted = vectors.mean(axis=0) @ exact["kinds"]["kernel"]
        want_start, want_end = np.zeros(length), np.zeros(length)
        for first, last in runs_of(kinds):
            own = range(first, last + 1)
            often = np.mean([np.log(1 + words.count(words[at])) for at in own])
            repeated = np.mean([words[at] in others for at in own])
            around = [words[max(0, at - 2) : at + 3] for at in own]
            near = np.mean([sum(word in others for word in some) for some in around])
            for edge, result in ((first, want_start), (last, want_end)):
                features = np.array([edge / length, often, repeated, np.log1p(near)])
                result[edge] = (features @ exact["features"]["kernel"])[0]
                result[edge] += exact["features"]["bias"][0] + wanted[int(kinds[edge] == 3)]
        np.testing.assert_allclose(start[row, :length], want_start, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(end[row, :length], want_end, rtol=1e-5, atol=1e-5)
        assert (start[row, length:] == MASKED).all()


def test_the_random_choice_is_of_new_candidates():
    context, question = texts()
    assert not jax.tree.leaves(build("random")[0])
    start, end = logits("random")
    drawn = set()
    for row, length in enumerate(CONTEXT):
        words, others = words_of(context, row), words_of(question, row)
        new = [
            (first, last)
            for first, last in runs_of(KINDS[row, :length, 0])
            if any(word not in others for word in words[first : last + 1])
        ]
        assert np.flatnonzero(start[row] > MASKED).tolist() == [first for first, _ in new]
        assert np.flatnonzero(end[row] > MASKED).tolist() == [last for _, last in new]
        for first, last in new:
            assert start[row, first] == end[row, last] and 1 <= start[row, first] < 2
            drawn.add(float(start[row, first]))
    assert len(drawn) > 2
