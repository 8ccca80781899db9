"""The comparison systems' attention in limiting cases with a simpler equation, and in bfloat16."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from csan_jax.attention.block import Block
from csan_jax.attention.localness import Localness
from csan_jax.attention.relative import Relative
from tests import random_params
from tests.csan_jax.attention import numpy_reference
from tests.csan_jax.attention.cases import (
    DIM,
    DISTINCT,
    HEADS,
    IDENTITY,
    LENGTHS,
    PLAIN,
    ROW,
    SENTENCES,
    SYSTEMS,
    System,
    constant,
    padded,
    with_out_of_the_heads,
)
from tests.numpy_reference import affine

PROJECTIONS = "query", "key", "value", "out"
SIZE = DIM // HEADS
X, VALID = padded()


def run(name, params=None, x=X):
    system = SYSTEMS.get(name, name)
    return system.run(system.parameters if params is None else params, x, VALID)


def close(got, want, atol=1e-5):
    np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), atol=atol)


@pytest.mark.parametrize("system", DISTINCT.values(), ids=DISTINCT)
def test_bfloat16_is_near_the_oracle_at_length_64(system):
    params = system.parameters
    short = dataclasses.replace(
        system, settings=dataclasses.replace(system.settings, dtype=jnp.bfloat16)
    )
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


# Two systems with equal outputs and weights.


def plain(params):
    """The parameters, with projections of the plain system."""
    return params | {name: PLAIN.parameters[name] for name in PROJECTIONS}


def half_of_rows(kernel, half):
    """BLOCK's W_O [2 D, D] from the rows for one half of each head, h (0) or e (1), [D, D]."""
    complete = np.zeros((HEADS, 2, SIZE, DIM), np.float32)
    complete[:, half] = kernel.reshape(HEADS, SIZE, DIM)
    return complete.reshape(2 * DIM, DIM)


def without_tables(params):
    return params | {name: params[name] * 0 for name in ("relative_keys", "relative_values")}


def blind_to_blocks(params):
    kernel = half_of_rows(params["out"]["kernel"], 0)
    return params | {"out": {**params["out"], "kernel": kernel}}


def of_width(params, sigma):
    return params | {"log_sigma": np.full(HEADS, np.log(sigma), np.float32)}


def unchanged(params):
    return params


FAR = {"local_heads": 3, "window": "fixed", "width": 1e6}
NO_LOCAL_HEAD = System(Localness(local_heads=0))
OWN_POSITION = System(Localness(local_heads=HEADS, centre="own", window="fixed", width=3.0))
EQUAL = {  # two systems, and the changes of their parameters, that are otherwise the plain ones
    "rel_pos with tables of zeros": (SYSTEMS["rel_pos"], without_tables, PLAIN, unchanged),
    "neighbor of sigma 10^6": (
        SYSTEMS["neighbor"],
        lambda params: of_width(params, 1e6),
        PLAIN,
        unchanged,
    ),
    "local_hard of width 10^6": (System(Localness(**FAR)), unchanged, PLAIN, unchanged),
    "luong of width 10^6": (System(Localness(**FAR, form="luong")), unchanged, PLAIN, unchanged),
    "no local head": (NO_LOCAL_HEAD, unchanged, PLAIN, unchanged),
    "block of all words, e unused": (
        System(Block(block=max(LENGTHS))),
        blind_to_blocks,
        PLAIN,
        unchanged,
    ),
    "own position and twice sigma": (
        OWN_POSITION,
        unchanged,
        SYSTEMS["neighbor"],
        lambda params: of_width(params, 1.5),
    ),
}


@pytest.mark.parametrize("case", EQUAL)
def test_two_systems_are_equal(case):
    system, change, other, other_change = EQUAL[case]
    out, weights = run(system, change(plain(system.parameters)))
    want, want_weights = run(other, other_change(plain(other.parameters)))
    close(out[VALID], want[VALID])
    close(weights, want_weights, 1e-6)


def test_what_is_not_predicted_has_no_parameters():
    ours, others = (jax.tree.map(np.shape, x.parameters) for x in (NO_LOCAL_HEAD, PLAIN))
    assert ours == others
    assert {*OWN_POSITION.parameters} == {*PROJECTIONS}


def logit(share):
    return np.log(share / (1 - share))


def test_local_soft_with_a_constant_window_is_local_hard():
    hard = SYSTEMS["local_hard"]
    share = (hard.choice.width - 0.1) / LENGTHS[0]
    params = constant(SYSTEMS["local_soft"].parameters, "window", logit(share))
    shared = {name: leaf for name, leaf in params.items() if name != "window"}
    for a, b in zip(run("local_soft", params), run(hard, shared), strict=True):
        close(a[0, ..., :8, :], b[0, ..., :8, :])


def test_a_narrow_neighbor_gives_each_word_its_own_value():
    params = of_width(SYSTEMS["neighbor"].parameters, 1e-9)
    want = affine(affine(X[VALID], params["value"]), params["out"])
    close(run("neighbor", params)[0][VALID], want, 2e-5)


def test_a_narrow_window_gives_the_value_at_its_centre():
    """D = 0.1, and P = 0, 3 and 7 in three heads, for a sentence of 8 words."""
    params = constant(SYSTEMS["local_soft"].parameters, "window", -1e3)
    params = constant(with_out_of_the_heads(params), "centre", [-1e3, logit(3 / 7), 1e3])
    value = affine(X[0], params["value"]).reshape(ROW, HEADS, SIZE)
    got = run("local_soft", params)[0][0, : LENGTHS[0]].reshape(-1, HEADS, SIZE)[:, :3]
    close(got, np.stack([value[place, head] for head, place in enumerate((0, 3, 7))]))


def test_luongs_weights_sum_below_1_in_local_heads_alone():
    sums = run("luong")[1].sum((3, 4))
    assert (sums[0, :3, :8] < 0.99).all() and (sums[2, :3, :6] < 0.99).all()
    close(sums[:, 3][VALID], 1, 1e-6)
    close(sums[1, :, 0], 1, 1e-6)


def test_distance_0_adds_its_value_to_plain_self_attention():
    system = System(Relative(distance=0))
    params = plain(system.parameters)
    (out, weights), (want, want_weights) = run(system, params), run(PLAIN)
    added = np.tile(params["relative_values"][0], HEADS) @ params["out"]["kernel"]
    close(out[VALID], want[VALID] + added)
    close(weights, want_weights, 1e-6)


def test_words_beyond_the_distance_may_change_places():
    """k = 2: for the words 0 to 2, the words 4 and 7 have the same offset; for word 3, 4 is
    nearer."""
    swapped = X.copy()
    swapped[0, [4, 7]] = X[0, [7, 4]]
    a, b = (run("rel_pos", x=x)[0][0] for x in (X, swapped))
    close(a[:3], b[:3])
    assert (np.abs(a - b)[3:8].max(-1) > 1e-3).all()


def test_a_changed_word_reaches_even_heads_after_it_and_odd_heads_before_it():
    params, at = with_out_of_the_heads(SYSTEMS["bi_direct"].parameters), 3
    changed = X.copy()
    changed[0, at] += 1
    (a, weights), (b, _) = (run("bi_direct", params, x) for x in (X, changed))
    moved = np.abs(a - b)[0, :8].reshape(8, HEADS, SIZE).max(-1) > 0
    i = np.arange(8)[:, None]
    np.testing.assert_array_equal(moved, np.where(np.arange(HEADS) % 2 == 0, i >= at, i <= at))
    left = np.tri(8, dtype=bool)
    np.testing.assert_array_equal(weights[0, :, :8, 0, :8] > 0, [left, left.T, left, left.T])


def test_a_reversed_sentence_with_exchanged_heads_is_reversed():
    params = SYSTEMS["bi_direct"].parameters
    order = np.arange(DIM).reshape(HEADS, SIZE)[[1, 0, 3, 2]].ravel()
    exchanged = {
        name: {leaf: array[..., order] for leaf, array in params[name].items()}
        for name in ("query", "key", "value")
    }
    exchanged["out"] = {**params["out"], "kernel": params["out"]["kernel"][order]}
    back, _ = run("bi_direct", exchanged, padded([x[::-1] for x in SENTENCES])[0])
    for a, b, length in zip(run("bi_direct")[0], back, LENGTHS, strict=True):
        close(a[:length], b[:length][::-1])


@pytest.mark.parametrize("name", ["cnns", "cnns_full"])
def test_convolutions_of_zeros_are_the_identity(name):
    zeros = lambda path, leaf: leaf * ("norm" in path[0].key)
    params = jax.tree.map_with_path(zeros, SYSTEMS[name].parameters)
    np.testing.assert_array_equal(run(name, params)[0][VALID], X[VALID])


@pytest.mark.parametrize("name", ["cnns", "cnns_full", "cnns_post"])
def test_a_changed_word_moves_what_its_convolutions_reach(name):
    choice = SYSTEMS[name].choice
    changed = X.copy()
    changed[0, 1] += np.random.default_rng(4).normal(size=DIM)
    a, b = (run(name, x=x)[0] for x in (X, changed))
    want = np.zeros_like(VALID)
    want[0, : 1 + choice.count * (choice.width // 2) + 1] = True
    np.testing.assert_array_equal((a != b).any(-1) & VALID, want & VALID)


def test_blocks_of_one_word_are_attention_over_projected_values():
    system = System(Block(block=1))
    exact = random_params.exact(system.parameters)
    for sentence, got, own in zip(SENTENCES, *run(system), strict=True):
        n = len(sentence)
        h = affine(sentence.astype(np.float64), exact["value"]).reshape(n, HEADS, SIZE)
        e = numpy_reference.between_blocks(h, exact, HEADS)
        close(got[:n], affine(np.concatenate([h, e], -1).reshape(n, -1), exact["out"]))
        close(own[:, :n, 0, :n], np.eye(n), 1e-6)


def test_a_closed_gate_gives_each_block_its_own_sum():
    """With equal shares in the sum, e is the mean of h over the block of 4, 2 or 1 words."""
    params = constant(constant(SYSTEMS["block"].parameters, "gate", -1e3), "pool", 0.0)
    only = lambda half: {**IDENTITY, "kernel": half_of_rows(np.eye(DIM), half)}
    h, e = (run("block", {**params, "out": only(half)})[0] for half in (0, 1))
    for row, first, end in ((0, 0, 4), (0, 4, 8), (1, 0, 1), (2, 0, 4), (2, 4, 6)):
        close(e[row, first:end], h[row, first:end].mean(0), 1e-6)
