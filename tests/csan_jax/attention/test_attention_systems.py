"""The comparison systems' attention against loops in float64, and their config's fields."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.errors import UserError
from common_jax.masks import segments
from csan_jax.attention.area import Area
from csan_jax.attention.block import Block
from csan_jax.attention.convolution import Convolutions
from csan_jax.attention.localness import Localness
from csan_jax.attention.neighbor import Neighbor
from csan_jax.attention.relative import Relative
from csan_jax.config import ModelConfig
from tests import random_params
from tests.csan_jax.attention import cases, numpy_reference
from tests.csan_jax.attention.cases import DIM, HEADS, LENGTHS, SETTINGS, SYSTEMS, System, constant
from tests.gradcheck import assert_slopes

FURTHER = {
    "distance 0": System(Relative(distance=0)),
    "blocks of one word": System(Block(block=1)),
    "a block of all words": System(Block(block=max(LENGTHS))),
    "no local head": System(Localness(local_heads=0, centre="own", window="fixed")),
    "own position": System(Localness(local_heads=HEADS, centre="own", window="fixed", width=3.0)),
}
ALL = {"plain": cases.PLAIN, **SYSTEMS, **FURTHER}
each_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)


@pytest.mark.parametrize("system", ALL.values(), ids=ALL)
def test_sentences_have_the_oracles_outputs_and_weights(system):
    """Padded, and packed in one row; positions outside of a sentence have no weight."""
    x, ids, places = cases.padded_and_packed()
    out, weights = system.run(system.parameters, x, ids)
    exact = random_params.exact(system.parameters)
    rest = np.array(weights)[:, :, :, 0] if system.has_weights else None
    for sentence, (row, own) in zip(cases.SENTENCES * 2, places, strict=True):
        want, want_weights = system.oracle(sentence.astype(np.float64), exact)
        np.testing.assert_allclose(out[row, own], want, atol=1e-5, rtol=1e-5)
        if system.has_weights:
            np.testing.assert_allclose(rest[row, :, own, own], want_weights, atol=1e-5)
            rest[row, :, own, own] = 0
    assert not system.has_weights or not rest.any()


@each_system
def test_gradients_are_the_oracles_slopes(system):
    params, (x, valid) = system.parameters, cases.padded()
    cotangent = np.random.default_rng(1).normal(size=x.shape) * valid[..., None]
    _, gradients = system.gradients(params, x, valid, cotangent)

    def total(inputs):
        params, x = inputs
        outputs = (system.oracle(row[:n], params)[0] for row, n in zip(x, LENGTHS, strict=True))
        return sum((out * c[: len(out)]).sum() for out, c in zip(outputs, cotangent, strict=True))

    assert_slopes(total, (params, x), gradients)


def test_predicted_numbers_are_float32_functions_of_bfloat16_queries():
    choice, params = SYSTEMS["local_soft"].choice, SYSTEMS["local_soft"].parameters
    module = choice.module(dataclasses.replace(SETTINGS, dtype=jnp.bfloat16))
    query = np.random.default_rng(3).normal(size=(1, 64, HEADS, DIM // HEADS))
    query, valid = jnp.asarray(query, jnp.bfloat16), jnp.arange(64)[None] < 61
    predict = lambda q, v: module.apply({"params": params}, q, segments(v, v), method="bias")
    got = jax.jit(predict)(query, valid)
    wide = np.asarray(query, np.float64)[0, :61].reshape(61, DIM)
    options = choice.local_heads, choice.centre, choice.window, choice.width
    want = numpy_reference.centres_and_windows(wide, random_params.exact(params), *options)
    for number, exact in zip((got.centre, got.window), want, strict=True):
        assert number.dtype == jnp.float32 and np.isfinite(number).all()
        np.testing.assert_allclose(number[0, :, :61].T, exact, rtol=1e-5, atol=2e-5)


def test_dropped_weights_have_no_relative_value_either():
    """Values of zero with equal tables give the result of equal values with tables of zeros."""
    settings = dataclasses.replace(SETTINGS, attention_dropout=0.5)
    system = System(Relative(distance=2), settings)
    run = jax.jit(
        lambda params, x, valid: cases.apply(
            system, params, x, valid, train=True, rngs={"dropout": jax.random.key(0)}
        )
    )
    identity = {"kernel": np.eye(DIM, dtype=np.float32), "bias": np.zeros(DIM, np.float32)}
    params = {**system.parameters, "out": identity}  # the output is that of the heads
    rows, number = params["relative_values"], np.float32([1.0, 2.0, -3.0])
    tables = {**constant(params, "value", 0.0), "relative_values": rows * 0 + number}
    values = constant({**params, "relative_values": rows * 0}, "value", np.tile(number, HEADS))
    x, valid = cases.padded()
    a, b = (np.asarray(run(params, x, valid))[valid] for params in (tables, values))
    np.testing.assert_allclose(a, b, atol=1e-5)
    assert np.abs(a - np.tile(number, HEADS)).max() > 0.1


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Neighbor, {"sigma": -3.0}),
        (Neighbor, {"sigma": float("nan")}),
        (Localness, {"width": 0.0}),
        (Localness, {"width": 0.4, "window": "fixed", "form": "luong"}),
        (Localness, {"form": "luong"}),
        (Localness, {"local_heads": 9}),
        (Relative, {"distance": -1}),
        (Convolutions, {"width": 4}),
        (Convolutions, {"count": 0}),
        (Block, {"block": 0}),
        (Block, {"local_layers": 7}),
        (Area, {"token_window": 4}),
    ],
)
def test_a_config_names_the_field_that_is_wrong(kind, fields):
    name, value = next(iter(fields.items()))
    with pytest.raises(UserError, match=rf"^model\.(encoder_attention\.)?{name}={value}: "):
        dataclasses.replace(ModelConfig(), encoder_attention=kind(**fields))
