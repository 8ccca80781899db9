"""Paragraph vectors against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.models.base import Text
from attconv_jax.models.paragraph_vector import ParagraphVector
from common_jax.errors import UserError

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


@pytest.mark.parametrize("fields", [{"steps": 0}, {"rate": 0.0}, {"decay": -1.0}])
def test_bad_fields(fields):
    with pytest.raises(UserError, match=f"model.{next(iter(fields))}"):
        ParagraphVector(**fields)
