"""Masks and tensors of many kinds, and the check of an implementation against the oracle."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from common_jax import masks
from common_jax.attention import attention
from common_jax.masks import Mask
from tests.common_jax.attention import oracle


def tensors(batch=1, queries=9, keys=None, heads=2, size=3, value_size=4, seed=0):
    """Query, key, value and the cotangent of the output, float32."""
    keys = queries if keys is None else keys
    draw = np.random.default_rng(seed).standard_normal
    shapes = [(queries, size), (keys, size), (keys, value_size), (queries, value_size)]
    return [draw((batch, n, heads, k)).astype(np.float32) for n, k in shapes]


@functools.partial(jax.jit, static_argnames=("implementation", "scale", "dropout_rate"))
def value_and_gradients(query, key, value, cotangent, mask, **options):
    call = functools.partial(attention, mask=mask, **options)
    out, back = jax.vjp(call, query, key, value)
    return out, *back(cotangent)


def check_against_oracle(arrays, mask, implementation, **scale):
    got = value_and_gradients(*arrays, mask, implementation=implementation, **scale)
    want = oracle.attend(*arrays[:3], mask, **scale, cotangent=arrays[3])
    wanted = (want.out, want.query_grad, want.key_grad, want.value_grad)
    for name, g, w in zip(("output", "query", "key", "value"), got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5, err_msg=name)
    return want


def random_valid(batch, length, seed=1):
    return jnp.asarray(np.random.default_rng(seed).random((batch, length)) < 0.7)


def packed(batch, length, seed=2):
    """Rows of several sequences with holes of padding between them."""
    draw = np.random.default_rng(seed)
    ids = np.sort(draw.integers(1, 4, (batch, length)), axis=1)
    return jnp.asarray(np.where(draw.random((batch, length)) < 0.2, 0, ids))


def window(size, **others):
    return Mask(window=size, **others)


valid_9, packed_9, packed_70 = random_valid(2, 9), packed(2, 9), packed(2, 70)
# name: (shape of the tensors, mask)
SELF_ATTENTION_IN_A_WINDOW = {
    "one window, odd length, three blocks": ({"queries": 70}, window(5)),
    "a block and one": ({"queries": 33}, window(11)),
    "window of one": ({"queries": 9}, window(1)),
    "one token": ({"queries": 1}, window(3)),
    "window longer than the sequence": ({"queries": 7}, window(31)),
    "window longer than a block": ({"queries": 90}, window(41)),
    "left": ({"queries": 40}, window(5, direction="left")),
    "alternate": ({"queries": 40, "heads": 3}, window(5, direction="alternate")),
    "padded keys": ({"batch": 2}, window(3, key_segments=valid_9)),
    "padded queries": ({"batch": 2}, window(3, query_segments=valid_9)),
    "padding": ({"batch": 2}, window(3, query_segments=valid_9, key_segments=valid_9)),
    "packed": (
        {"batch": 2, "queries": 70},
        window(7, query_segments=packed_70, key_segments=packed_70),
    ),
    "ids meet truth values": (
        {"batch": 2},
        window(5, query_segments=packed_9, key_segments=valid_9),
    ),
    "heads truncate": ({"heads": 4}, window(5, heads=3)),
    "heads wrap": ({"heads": 4}, window(5, heads=3, head_edge="wrap")),
    "heads clamp": ({"heads": 4}, window(5, heads=3, head_edge="clamp")),
    "heads as the authors'": ({"heads": 4}, window(5, heads=3, head_edge="authors")),
    "heads plus one": ({"heads": 4}, window(5, heads=5)),
    "five of five wrapping": ({"heads": 5}, window(3, heads=5, head_edge="wrap")),
    "three blocks of areas": ({"queries": 70, "heads": 3}, window(5, heads=3)),
    "all at once": (
        {"batch": 2, "queries": 70, "heads": 4},
        window(
            7,
            query_segments=packed_70,
            key_segments=packed_70,
            direction="alternate",
            heads=3,
            head_edge="authors",
        ),
    ),
}
# That differ for the banded form alone, which cuts the sequence into blocks.
OF_BLOCKS = ("a block and one", "window longer than a block", "left", "three blocks of areas")
DENSE_ONLY = {
    "no mask": ({}, Mask()),
    "causal": ({}, masks.causal()),
    "heads without a window": ({"heads": 4}, masks.head_window(3)),
    "cross": ({"queries": 4, "keys": 7}, Mask()),
    "cross, padded": (
        {"batch": 2, "queries": 4, "keys": 9, "heads": 3},
        masks.padding(valid_9, random_valid(2, 4)) & masks.head_window(3, "wrap"),
    ),
    "cross, packed": (
        {"batch": 2, "queries": 6, "keys": 9},
        masks.segments(packed(2, 6), packed_9),
    ),
    "cross in a window": ({"queries": 9, "keys": 4}, window(3)),
    "explicit": ({"batch": 2}, masks.explicit(random_valid(2, 81).reshape(2, 9, 9))),
}
