"""Beam search against exhaustive, greedy and uncached searches."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from csan_jax.attention.area import Area
from csan_jax.attention.relative import RelativeCausal
from csan_jax.config import ModelConfig
from csan_jax.data.subwords import END
from csan_jax.decode import Stage, _candidates, beam_search
from csan_jax.model import Transformer

VOCABULARY = 5  # padding, end, and three words
STEPS = 8
CONFIG = ModelConfig(
    dim=16,
    mlp_dim=16,
    num_heads=2,
    encoder_layers=1,
    decoder_layers=2,
    encoder_attention=Area(local_layers=1, token_window=3, head_window=3),
    decoder_attention=RelativeCausal(distance=2),
    source_vocab_size=VOCABULARY,
    target_vocab_size=VOCABULARY,
)
MODEL = Transformer(CONFIG)


@pytest.fixture(scope="module")
def params():
    pieces = jnp.ones((1, 2), jnp.int32)
    params = jax.jit(lambda key: MODEL.init(key, pieces, pieces, train=False))(jax.random.key(2))
    # larger than initially, so that hypotheses have different scores
    return jax.device_get(jax.tree.map(lambda a: a * 3, params))


SOURCES = np.array(
    [[3, 2, 4, 1], [2, 2, 1, 0], [4, 1, 0, 0], [2, 3, 3, 1], [4, 4, 2, 1], [3, 1, 0, 0]], np.int32
)


@functools.cache
def compiled_search(beam_size, steps, penalty, hypotheses, compact=0):
    """The search, called as by the task."""

    @jax.jit
    def run(params, source, limits):
        apply = lambda method, *inputs, **options: MODEL.apply(
            params, *inputs, method=method, **options
        )
        rows, first = len(source), (steps + 1) // 2
        stages = [Stage(rows, first, compact and rows // 2), Stage(rows, steps)]
        if compact:
            stages[1:] = [Stage(compact, steps)]
        memory = apply("encode", source, train=False)
        cache, inputs, layers = apply("start", memory, source != 0, first, beam_size)
        step = lambda cache, inputs, *rest: apply("step", cache, inputs, layers, *rest)
        return beam_search(step, cache, inputs, limits, stages, beam_size, penalty, hypotheses)

    return lambda *inputs: jax.device_get(run(*inputs))


teacher_forced = jax.jit(functools.partial(MODEL.apply, train=False))


def log_probabilities(params, source, targets):
    """[N, T, V] by teacher forcing, without a cache; row n of `targets` after the source."""
    sources = np.repeat(source[None], len(targets), axis=0)
    logits = np.asarray(teacher_forced(params, sources, targets), np.float64)
    logits[..., 0] = -np.inf
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def exhaustive(params, source, limit, penalty):
    """All ended translations of at most `limit` pieces, and their scores."""
    words = range(2, VOCABULARY)
    all_targets = [
        [*sentence, END] + [0] * (limit - length - 1)
        for length in range(limit)
        for sentence in itertools.product(words, repeat=length)
    ]
    targets = np.array(all_targets, np.int32)
    logp = log_probabilities(params, source, targets)
    picked = np.take_along_axis(logp, targets[..., None], axis=-1)[..., 0]
    lengths = (targets != 0).sum(1)
    scores = np.where(targets != 0, picked, 0).sum(1) / ((5 + lengths) / 6) ** penalty
    return targets, scores


def test_beam_one_is_greedy(params):
    limits = np.array([8, 8, 8, 5, 3, 8], np.int32)
    pieces, scores = compiled_search(1, STEPS, 0.6, 1)(params, SOURCES, limits)
    for source, limit, (own,), (score,) in zip(SOURCES, limits, pieces, scores, strict=True):
        target, total = np.zeros(STEPS, np.int32), 0.0
        for t in range(limit):
            logp = log_probabilities(params, source, target[None])[0, t]
            target[t] = logp.argmax()
            total += logp.max()
            if target[t] == END:
                break
        np.testing.assert_array_equal(own, target)
        length = limit if END not in target else t + 1
        np.testing.assert_allclose(score, total / ((5 + length) / 6) ** 0.6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("limits", [[7, 8, 2, 8, 6, 8], [8, 2, 7, 0, 6, 8]])
@pytest.mark.parametrize("beam_size,rows", [(1, 1), (3, 2), (3, 4)])
def test_neighbours_padding_and_dropped_sentences_change_no_translation(
    params, beam_size, rows, limits
):
    """Also where more sentences are open than the later stage has rows."""
    run = compiled_search(beam_size, STEPS, 0.6, beam_size)
    limits = np.array(limits, np.int32)
    pieces, scores = run(params, SOURCES, limits)
    assert not any(row[:, limit:].any() for row, limit in zip(pieces, limits, strict=True))
    order = np.array([4, 2, 0, 5, 1, 3])
    wider = np.pad(SOURCES[order], [(0, 2), (0, 3)])
    run = compiled_search(beam_size, STEPS + 2, 0.6, beam_size, rows)
    same, same_scores = run(params, wider, np.pad(limits[order], (0, 2)))
    np.testing.assert_array_equal(same[:6, :, :STEPS], pieces[order])
    np.testing.assert_allclose(same_scores[:6], scores[order], rtol=1e-5, atol=1e-6)
    assert not same[6:].any()  # filler rows stay empty


@pytest.mark.parametrize("size,count", [(5000, 8), (4096, 16), (100, 8), (513, 2), (65, 2)])
def test_candidates_are_those_of_a_full_sort(size, count):
    random = np.random.default_rng(0)
    logits = random.permutation(3 * 2 * size).reshape(3, 2, size) / size
    logits[0, :, 0] = 1e4  # padding, however probable, is no candidate and has no probability
    scores = np.array([[0.0, -1.5], [0.0, -np.inf], [-3.0, -2.0]])
    best, parents, pieces = jax.jit(_candidates, static_argnums=2)(
        *map(jnp.float32, (scores, logits)), count
    )
    logits[..., 0] = -np.inf
    totals = np.log(np.exp(logits).sum(-1, keepdims=True))
    logp = (logits - totals + scores[..., None]).reshape(3, -1)
    order = np.argsort(-logp, axis=1)[:, :count]
    np.testing.assert_array_equal(np.asarray(parents) * size + pieces, order)
    np.testing.assert_allclose(best, np.take_along_axis(logp, order, axis=1), atol=1e-5)


@pytest.mark.parametrize(
    ("penalty", "count"),
    [(0.0, 5), (2.0, 1), *(pytest.param(*x, marks=pytest.mark.slow) for x in ((0.0, 1), (2.0, 5)))],
)
def test_the_best_of_a_wide_beam_are_those_of_exhaustive_search(params, penalty, count):
    limit, steps = 4, 6
    limits = np.full(len(SOURCES), limit, np.int32)
    pieces, scores = compiled_search(64, steps, penalty, count)(params, SOURCES, limits)
    assert pieces.shape == (len(SOURCES), count, steps) and not pieces[..., limit:].any()
    for source, own, each in zip(SOURCES, pieces, scores, strict=True):
        targets, all_scores = exhaustive(params, source, limit, penalty)
        best = np.argsort(-all_scores)[:count]
        np.testing.assert_array_equal(own[:, :limit], targets[best])
        # float32 logits
        np.testing.assert_allclose(each, all_scores[best], rtol=1e-5, atol=1e-6)


def test_hypotheses_cut_off_at_the_limit_follow_the_others(params):
    """At a limit of one piece only the empty translation has ended; the others are single words,
    and the fifth is an empty slot."""
    limits = np.ones(len(SOURCES), np.int32)
    pieces, scores = compiled_search(64, 6, 0.0, 5)(params, SOURCES, limits)
    assert not pieces[:, :, 1:].any()
    for source, own, each in zip(SOURCES, pieces[:, :4, 0], scores, strict=True):
        logp = log_probabilities(params, source, np.array([[END]]))[0, 0]
        assert own.tolist() == [END, *sorted(range(2, VOCABULARY), key=lambda word: -logp[word])]
        np.testing.assert_allclose(each[:4], logp[own], rtol=1e-5, atol=1e-6)
        assert each[4] == -np.inf
