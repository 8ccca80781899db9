"""The comparison systems' attention against loops in float64, and in limiting cases with a simpler
equation.
"""

import dataclasses
import re

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
from tests.csan_jax.attention import numpy_reference
from tests.csan_jax.attention.cases import (
    DIM,
    DISTINCT,
    HEADS,
    LENGTHS,
    PLAIN,
    ROW,
    SENTENCES,
    SIZES,
    SYSTEMS,
    System,
    apply,
    packed,
    padded,
)
from tests.gradcheck import assert_slopes
from tests.numpy_reference import affine

PROJECTIONS = "query", "key", "value", "out"
SIZE = DIM // HEADS
IDENTITY = {"kernel": np.eye(DIM, dtype=np.float32), "bias": np.zeros(DIM, np.float32)}

each_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
each_distinct = pytest.mark.parametrize("system", DISTINCT.values(), ids=DISTINCT)


def check(system, params, got, places, atol=1e-5):
    """Compares each sentence's outputs and weights, at its (row, slice), with the oracle's;
    positions outside of sentences have no weight."""
    out, weights = got
    if system.has_weights:
        rest = np.array(weights[:, :, :, 0])
    for sentence, (row, own) in zip(SENTENCES, places, strict=True):
        want, want_weights = system.oracle(sentence.astype(np.float64), random_params.exact(params))
        np.testing.assert_allclose(out[row, own], want, atol=atol, rtol=1e-5)
        if system.has_weights:
            np.testing.assert_allclose(rest[row, :, own, own], want_weights, atol=atol)
            rest[row, :, own, own] = 0
    if system.has_weights:
        assert not rest.any()


@pytest.mark.parametrize("system", [PLAIN, *SYSTEMS.values()], ids=["plain", *SYSTEMS])
def test_padded_sentences_have_the_oracles_outputs_and_weights(system):
    params = system.parameters
    places = [(row, slice(length)) for row, length in enumerate(LENGTHS)]
    check(system, params, system.run(params, *padded()), places)


@each_distinct
def test_sentences_packed_in_one_row_have_their_own_positions_and_lengths(system):
    params = system.parameters
    x, ids, places = packed()
    check(system, params, system.run(params, x, ids), [(0, place) for place in places])


@each_system
def test_gradients_are_the_oracles_slopes(system):
    params, (x, valid) = system.parameters, padded()
    cotangent = np.random.default_rng(1).normal(size=x.shape) * valid[..., None]
    _, gradients = system.gradients(params, x, valid, cotangent)

    def total(inputs):
        params, x = inputs
        outputs = (system.oracle(row[:n], params)[0] for row, n in zip(x, LENGTHS, strict=True))
        return sum((out * c[: len(out)]).sum() for out, c in zip(outputs, cotangent, strict=True))

    assert_slopes(total, (params, x), gradients)


@each_system
def test_what_stands_in_padding_changes_nothing(system):
    params, cotangent = system.parameters, np.ones((len(LENGTHS), ROW, DIM), np.float32)
    results = []
    for garbage in (0.0, 1e6):
        x, valid = padded(garbage=garbage)
        out, weights = system.run(params, x, valid)
        _, (to_params, to_x) = system.gradients(params, x, valid, cotangent * valid[..., None])
        assert not to_x[~valid].any()
        results.append((out[valid], weights, to_params, to_x))
    jax.tree.map(np.testing.assert_array_equal, *results)


@each_distinct
def test_bfloat16_is_near_the_oracle_at_length_64(system):
    params = system.parameters
    short = dataclasses.replace(system, sizes=dataclasses.replace(system.sizes, dtype=jnp.bfloat16))
    draw = np.random.default_rng(2).normal
    sentences = [draw(size=(length, DIM)).astype(np.float32) for length in (61, 20)]
    x, valid = padded(sentences, 64)
    out, gradients = short.gradients(params, x, valid, np.ones_like(x) * valid[..., None])
    assert out.dtype == jnp.bfloat16
    assert all(np.isfinite(g.astype(np.float32)).all() for g in jax.tree.leaves(gradients))
    exact = random_params.exact(params)
    want = np.concatenate([system.oracle(x.astype(np.float64), exact)[0] for x in sentences])
    error = out[valid].astype(np.float64) - want
    assert np.linalg.norm(error) < 0.03 * np.linalg.norm(want)


def test_predicted_numbers_are_float32_functions_of_bfloat16_queries():
    choice, params = SYSTEMS["local_soft"].choice, SYSTEMS["local_soft"].parameters
    module = choice.module(dataclasses.replace(SIZES, dtype=jnp.bfloat16))
    query = np.random.default_rng(3).normal(size=(1, 64, HEADS, SIZE))
    query, valid = jnp.asarray(query, jnp.bfloat16), jnp.arange(64)[None] < 61
    predict = lambda q, v: module.apply({"params": params}, q, segments(v, v), method="bias")
    got = jax.jit(predict)(query, valid)
    wide = np.asarray(query, np.float64)[0, :61].reshape(61, DIM)
    options = choice.local_heads, choice.centre, choice.window, choice.width
    want = numpy_reference.centres_and_windows(wide, random_params.exact(params), *options)
    for number, exact in zip((got.centre, got.window), want, strict=True):
        assert number.dtype == jnp.float32 and np.isfinite(number).all()
        np.testing.assert_allclose(number[0, :, :61].T, exact, rtol=1e-5, atol=2e-5)


# Limiting cases.


def with_out_of_the_heads(params):
    """The parameters with W_O as the identity: the output is the concatenation of the heads'."""
    return {**params, "out": IDENTITY}


def half_of_rows(kernel, half):
    """BLOCK's W_O [2 D, D] from the rows for one half of each head, h (0) or e (1), [D, D]."""
    complete = np.zeros((HEADS, 2, SIZE, DIM), np.float32)
    complete[:, half] = kernel.reshape(HEADS, SIZE, DIM)
    return complete.reshape(2 * DIM, DIM)


def constant(params, name, bias):
    """The parameters with which the layer `name` returns the same values for every input."""
    own = params[name]
    bias = np.broadcast_to(np.float32(bias), own["bias"].shape)
    return {**params, name: {"kernel": own["kernel"] * 0, "bias": bias}}


def logit(share):
    return np.log(share / (1 - share))


def zero_tables(params):
    names = "relative_keys", "relative_values"
    return {**params, **{name: params[name] * 0 for name in names}}


def blind_to_blocks(params):
    out = {**PLAIN.parameters["out"]}
    out["kernel"] = half_of_rows(out["kernel"], 0)
    return {**params, "out": out}


def of_width(params, sigma):
    return {**params, "log_sigma": np.full(HEADS, np.log(sigma), np.float32)}


def unchanged(params):
    return params


FAR = {"local_heads": 3, "window": "fixed", "width": 1e6}
AS_PLAIN = {
    "rel_pos with tables of zeros": (SYSTEMS["rel_pos"], zero_tables),
    "neighbor of sigma 10^6": (SYSTEMS["neighbor"], lambda params: of_width(params, 1e6)),
    "local_hard of width 10^6": (System(Localness(**FAR)), unchanged),
    "luong of width 10^6": (System(Localness(**FAR, form="luong")), unchanged),
    "no local head": (System(Localness(local_heads=0)), unchanged),
    "block of all words, e unused": (System(Block(block=max(LENGTHS))), blind_to_blocks),
}


@pytest.mark.parametrize("case", AS_PLAIN)
def test_limits_are_plain_self_attention(case):
    system, change = AS_PLAIN[case]
    plain = {name: PLAIN.parameters[name] for name in PROJECTIONS}
    params = change({**system.parameters, **plain})
    x, valid = padded()
    (out, weights), (want, want_weights) = system.run(params, x, valid), PLAIN.run(plain, x, valid)
    np.testing.assert_allclose(out[valid], want[valid], atol=1e-5)
    np.testing.assert_allclose(weights, want_weights, atol=1e-6)


def test_without_local_heads_there_are_no_other_parameters():
    system, _ = AS_PLAIN["no local head"]
    ours, plain = (jax.tree.map(np.shape, x.parameters) for x in (system, PLAIN))
    assert ours == plain


def test_a_narrow_neighbor_gives_each_word_its_own_value():
    system = SYSTEMS["neighbor"]
    params = of_width(system.parameters, 1e-9)
    x, valid = padded()
    out, _ = system.run(params, x, valid)
    np.testing.assert_allclose(
        out[valid], affine(affine(x[valid], params["value"]), params["out"]), atol=2e-5
    )


def test_a_narrow_window_gives_the_value_at_its_centre():
    """D = 0.1, and P = 0, 3 and 7 in three heads, for a sentence of 8 words."""
    system = SYSTEMS["local_soft"]
    params = constant(system.parameters, "window", -1e3)
    params = constant(with_out_of_the_heads(params), "centre", [-1e3, logit(3 / 7), 1e3])
    x, valid = padded()
    out, _ = system.run(params, x, valid)
    value = affine(x[0], params["value"]).reshape(ROW, HEADS, SIZE)
    want = np.stack([value[place, head] for head, place in enumerate((0, 3, 7))])
    got = out[0, : LENGTHS[0]].reshape(-1, HEADS, SIZE)[:, :3]
    np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), atol=1e-5)


def test_local_soft_with_a_constant_window_is_local_hard():
    soft, hard = SYSTEMS["local_soft"], SYSTEMS["local_hard"]
    share = (hard.choice.width - 0.1) / LENGTHS[0]
    params = constant(soft.parameters, "window", logit(share))
    shared = {name: leaf for name, leaf in params.items() if name != "window"}
    for a, b in zip(soft.run(params, *padded()), hard.run(shared, *padded()), strict=True):
        np.testing.assert_allclose(a[0, ..., :8, :], b[0, ..., :8, :], atol=1e-5)


def test_the_own_position_and_twice_sigma_are_neighbor():
    near = System(Localness(local_heads=HEADS, centre="own", window="fixed", width=3.0))
    neighbor = SYSTEMS["neighbor"]
    params = of_width(neighbor.parameters, 1.5)
    assert {*near.parameters} == {*PROJECTIONS}
    x, valid = padded()
    (a, a_weights), (b, b_weights) = (
        near.run({name: params[name] for name in PROJECTIONS}, x, valid),
        neighbor.run(params, x, valid),
    )
    np.testing.assert_allclose(a[valid], b[valid], atol=1e-5)
    np.testing.assert_allclose(a_weights, b_weights, atol=1e-6)


def test_luongs_weights_sum_below_1_in_local_heads_alone():
    x, valid = padded()
    system = SYSTEMS["luong"]
    sums = system.run(system.parameters, x, valid)[1].sum((3, 4))
    assert (sums[0, :3, :8] < 0.99).all() and (sums[2, :3, :6] < 0.99).all()
    np.testing.assert_allclose(sums[:, 3][valid], 1, atol=1e-6)
    np.testing.assert_allclose(sums[1, :, 0], 1, atol=1e-6)


def test_distance_0_adds_its_value_to_plain_self_attention():
    system, plain = System(Relative(distance=0)), PLAIN.parameters
    params = {**system.parameters, **{name: plain[name] for name in PROJECTIONS}}
    x, valid = padded()
    (out, weights), (want, want_weights) = system.run(params, x, valid), PLAIN.run(plain, x, valid)
    added = np.tile(params["relative_values"][0], HEADS) @ plain["out"]["kernel"]
    np.testing.assert_allclose(out[valid], want[valid] + added, atol=1e-5)
    np.testing.assert_allclose(weights, want_weights, atol=1e-6)


def test_words_beyond_the_distance_may_change_places():
    """k = 2: for the words 0 to 2, the words 4 and 7 have the same offset; for word 3, 4 is
    nearer."""
    system = SYSTEMS["rel_pos"]
    x, valid = padded()
    swapped = x.copy()
    swapped[0, [4, 7]] = x[0, [7, 4]]
    a, b = (system.run(system.parameters, x, valid)[0][0] for x in (x, swapped))
    np.testing.assert_allclose(a[:3], b[:3], atol=1e-5)
    assert (np.abs(a - b)[3:8].max(-1) > 1e-3).all()


def test_dropped_weights_have_no_relative_value_either():
    """Values of zero with equal tables give the result of equal values with tables of zeros."""
    sizes = dataclasses.replace(SIZES, attention_dropout=0.5)
    system = System(Relative(distance=2), sizes)
    run = jax.jit(
        lambda params, x, valid: apply(
            system, params, x, valid, train=True, rngs={"dropout": jax.random.key(0)}
        )
    )
    params = with_out_of_the_heads(system.parameters)
    rows, number = params["relative_values"], np.float32([1.0, 2.0, -3.0])
    tables = {**constant(params, "value", 0.0), "relative_values": rows * 0 + number}
    values = constant({**params, "relative_values": rows * 0}, "value", np.tile(number, HEADS))
    x, valid = padded()
    a, b = (np.asarray(run(params, x, valid))[valid] for params in (tables, values))
    np.testing.assert_allclose(a, b, atol=1e-5)
    assert np.abs(a - np.tile(number, HEADS)).max() > 0.1


def test_a_changed_word_reaches_even_heads_after_it_and_odd_heads_before_it():
    system, at = SYSTEMS["bi_direct"], 3
    params = with_out_of_the_heads(system.parameters)
    x, valid = padded()
    changed = x.copy()
    changed[0, at] += 1
    (a, weights), (b, _) = (system.run(params, x, valid) for x in (x, changed))
    moved = np.abs(a - b)[0, :8].reshape(8, HEADS, SIZE).max(-1) > 0
    i = np.arange(8)[:, None]
    np.testing.assert_array_equal(moved, np.where(np.arange(HEADS) % 2 == 0, i >= at, i <= at))
    used = weights[0, :, :8, 0, :8] > 0
    left = np.tri(8, dtype=bool)
    np.testing.assert_array_equal(used, [left, left.T, left, left.T])


def test_a_reversed_sentence_with_exchanged_heads_is_reversed():
    system, params = SYSTEMS["bi_direct"], SYSTEMS["bi_direct"].parameters
    order = np.arange(DIM).reshape(HEADS, SIZE)[[1, 0, 3, 2]].ravel()
    exchanged = {
        name: {leaf: array[..., order] for leaf, array in params[name].items()}
        for name in ("query", "key", "value")
    }
    exchanged["out"] = {**params["out"], "kernel": params["out"]["kernel"][order]}
    out, _ = system.run(params, *padded())
    back, _ = system.run(exchanged, *padded([sentence[::-1] for sentence in SENTENCES]))
    for a, b, length in zip(out, back, LENGTHS, strict=True):
        np.testing.assert_allclose(a[:length], b[:length][::-1], atol=1e-5)


@pytest.mark.parametrize("name", ["cnns", "cnns_full"])
def test_convolutions_of_zeros_are_the_identity(name):
    system = SYSTEMS[name]
    zeros = lambda path, leaf: leaf * ("norm" in path[0].key)
    params = jax.tree.map_with_path(zeros, system.parameters)
    x, valid = padded()
    np.testing.assert_array_equal(system.run(params, x, valid)[0][valid], x[valid])


@pytest.mark.parametrize("name", ["cnns", "cnns_full", "cnns_post"])
def test_a_changed_word_moves_what_its_convolutions_reach(name):
    system = SYSTEMS[name]
    reach = system.choice.count * (system.choice.width // 2)
    x, valid = padded()
    changed = x.copy()
    changed[0, 1] += np.random.default_rng(4).normal(size=DIM)
    a, b = (system.run(system.parameters, x, valid)[0] for x in (x, changed))
    moved = (a != b).any(-1)
    want = np.zeros_like(moved)
    want[0, : 1 + reach + 1] = True
    np.testing.assert_array_equal(moved & valid, want & valid)


def test_blocks_of_one_word_are_attention_over_projected_values():
    system = System(Block(block=1))
    params = system.parameters
    out, weights = system.run(params, *padded())
    exact = random_params.exact(params)
    for sentence, got, own in zip(SENTENCES, out, weights, strict=True):
        h = affine(sentence.astype(np.float64), exact["value"]).reshape(-1, HEADS, SIZE)
        e = numpy_reference.between_blocks(h, exact, HEADS)
        want = affine(np.concatenate([h, e], -1).reshape(len(h), -1), exact["out"])
        np.testing.assert_allclose(got[: len(h)], want, atol=1e-5)
        eyes = np.broadcast_to(np.eye(len(h)), (HEADS, len(h), len(h)))
        np.testing.assert_allclose(own[:, : len(h), 0, : len(h)], eyes, atol=1e-6)


def test_a_closed_gate_gives_each_block_its_own_sum():
    """With equal shares in the sum, e is the mean of h over the block of 4, 2 or 1 words."""
    system = SYSTEMS["block"]
    params = constant(constant(system.parameters, "gate", -1e3), "pool", 0.0)
    x, valid = padded()
    h, e = (
        system.run(
            {**params, "out": {**IDENTITY, "kernel": half_of_rows(np.eye(DIM), half)}}, x, valid
        )[0]
        for half in (0, 1)
    )
    for row, first, end in ((0, 0, 4), (0, 4, 8), (1, 0, 1), (2, 0, 4), (2, 4, 6)):
        mean = h[row, first:end].mean(0)
        got = e[row, first:end]
        np.testing.assert_allclose(got, np.broadcast_to(mean, got.shape), atol=1e-6)


SECTION = "model.encoder_attention"


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (Neighbor, {"sigma": -3.0}, f"{SECTION}.sigma=-3.0: more than 0.1, and finite"),
        (Neighbor, {"sigma": float("nan")}, f"{SECTION}.sigma=nan: more than 0.1, and finite"),
        (Localness, {"width": 0.0}, f"{SECTION}.width=0.0: at least 0.1, and finite"),
        (
            Localness,
            {"width": 0.4, "window": "fixed", "form": "luong"},
            f"{SECTION}.width=0.4: at least 0.5, and finite",
        ),
        (Localness, {"form": "luong"}, f"{SECTION}.form=luong: needs {SECTION}.window=fixed"),
        (Localness, {"local_heads": 9}, f"{SECTION}.local_heads=9: 0 to num_heads=8"),
        (Relative, {"distance": -1}, f"{SECTION}.distance=-1: not negative"),
        (Convolutions, {"width": 4}, f"{SECTION}.width=4: must be odd, at least 1"),
        (Convolutions, {"count": 0}, f"{SECTION}.count=0: at least 1"),
        (Block, {"block": 0}, f"{SECTION}.block=0: at least 1"),
        (Area, {"token_window": 4}, "model.token_window=4: must be odd, at least 1"),
        (Block, {"local_layers": 7}, "model.local_layers=7: 0 to encoder_layers=6"),
    ],
)
def test_a_config_names_the_field_that_is_wrong(kind, fields, message):
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        dataclasses.replace(ModelConfig(), encoder_attention=kind(**fields))
