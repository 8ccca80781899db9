"""bfloat16 computes close to float32, with float32 logits."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import random_params
from tests.attconv_jax import test_model as attconv
from tests.attconv_jax.models import cases as matching
from tests.csan_jax import test_model as csan
from tests.csan_jax.attention import cases as encoding
from tests.qanet_jax import test_model as qanet


def of_translation(dtype):
    _, _, apply = csan.build(dtype)
    sources, targets = csan.batch()
    logits = apply(sources, targets)
    return logits, logits[targets != 0]


def of_reading(dtype):
    _, params, apply = qanet.build(dtype)
    texts = qanet.batch()
    logits = qanet.logits(apply, params, texts)
    return logits, logits[:, texts[0].valid]


def of_labels(dtype):
    _, params, judge = attconv.build(dtype=dtype)
    (_, (logits, _)), gradients = judge(params, attconv.batch(), attconv.SCORES)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))
    return logits, logits


@pytest.mark.parametrize("computed", [of_translation, of_reading, of_labels])
def test_bfloat16_computes_close_to_float32_with_float32_logits(computed):
    _, exact = computed(jnp.float32)
    logits, low = computed(jnp.bfloat16)
    assert logits.dtype == jnp.float32
    exact = np.asarray(exact)
    assert 0 < np.abs(np.asarray(low) - exact).max() < 0.1 * np.abs(exact).max()


def distance(a, b):
    """The distance of two trees of arrays, relative to the norm of b."""
    a, b = (np.concatenate([x.ravel() for x in jax.tree.leaves(tree)]) for tree in (a, b))
    return np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b)


@pytest.mark.parametrize("name", matching.COMPLETE)
def test_systems_of_pairs_and_reviews(name):
    system = matching.SYSTEMS[name]
    short = dataclasses.replace(system, dtype=jnp.bfloat16)
    logits, losses, low = short.gradients(system.parameters, *system.garbled)
    assert {x.dtype for x in jax.tree.leaves((logits, losses))} == {np.dtype(np.float32)}
    assert 0 < distance(logits, system.derived[0]) < 0.02
    assert distance(low, system.derived[2]) < 0.02


@pytest.mark.parametrize("system", encoding.DISTINCT.values(), ids=encoding.DISTINCT)
def test_attention_of_encoders_is_near_the_oracle_at_length_64(system):
    settings = dataclasses.replace(system.settings, dtype=jnp.bfloat16)
    draw = np.random.default_rng(2).normal
    sentences = [draw(size=(n, encoding.DIM)).astype(np.float32) for n in (61, 20)]
    x, valid = encoding.padded(sentences, 64)
    short = dataclasses.replace(system, settings=settings)
    cotangent = np.ones_like(x) * valid[..., None]
    out, gradients = short.gradients(system.parameters, x, valid, cotangent)
    assert out.dtype == jnp.bfloat16
    assert all(np.isfinite(g.astype(np.float32)).all() for g in jax.tree.leaves(gradients))
    exact = random_params.exact(system.parameters)
    want = np.concatenate([system.oracle(x.astype(np.float64), exact)[0] for x in sentences])
    assert distance(out[valid], want) < 0.03
