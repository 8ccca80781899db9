"""Masks and tensors for tests, and the comparison of an implementation with the reference."""

import dataclasses
import functools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax import attention as library
from common_jax import masks
from common_jax.attention import Bias
from common_jax.masks import Mask
from tests.common_jax.attention import numpy_reference
from tests.random_params import normal

each_implementation = pytest.mark.parametrize("implementation", ["dense", "banded"])
# Chunked attention supports no area of heads.
with_and_without_an_area = pytest.mark.parametrize(
    "implementation,heads", [("dense", 3), ("banded", 3), ("chunked", 1)]
)


def tensors(batch=1, queries=9, keys=None, heads=2, size=3, value_size=4, seed=0):
    """Query, key, value and the cotangent of the output, float32."""
    keys = queries if keys is None else keys
    draw = np.random.default_rng(seed).standard_normal
    shapes = [(queries, size), (keys, size), (keys, value_size), (queries, value_size)]
    return [draw((batch, n, heads, k)).astype(np.float32) for n, k in shapes]


def attention(query, key, value, *rest, **options):
    """The library's `attention`, with arrays converted to JAX's."""
    return library.attention(*map(jnp.asarray, (query, key, value)), *rest, **options)


@functools.partial(jax.jit, static_argnames=("implementation", "scale", "dropout_rate"))
def value_and_gradients(query, key, value, cotangent, mask, bias=None, **options):
    call = lambda q, k, v, bias: attention(q, k, v, mask, bias, **options)
    out, back = jax.vjp(call, query, key, value, bias)
    gradients = back(cotangent)
    return out, *(gradients if bias is not None else gradients[:3])


def check_against_oracle(arrays, mask, implementation, scale=None, bias=None):
    got = value_and_gradients(*arrays, mask, bias, implementation=implementation, scale=scale)
    added = None if bias is None else bias.by_hand(arrays[0].shape[1], arrays[1].shape[1])
    want = numpy_reference.attend(*arrays[:3], mask, added, scale=scale, cotangent=arrays[3])
    wanted = [want.out, want.query_grad, want.key_grad, want.value_grad]
    names = ["output", "query", "key", "value"]
    if bias is not None:
        got = *got[:4], got[4].numbers
        wanted.append(bias.gradient_by_hand(want.bias_grad))
        names.append("bias")
    for name, g, w in zip(names, got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5, err_msg=name)
    return want


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Toeplitz(Bias):
    """A number for each difference j - i, clipped to the table [h, 2 R + 1]."""

    numbers: jax.Array
    relative: ClassVar[bool] = True

    @property
    def reach(self):
        return self.numbers.shape[1] // 2

    def at(self, query_positions, key_positions):
        offset = key_positions[None, :] - query_positions[:, None]
        return self.numbers[:, offset.clip(-self.reach, self.reach) + self.reach][None]

    def by_hand(self, queries, keys):
        return np.asarray(self.numbers)[:, self.places(queries, keys)][None]

    def gradient_by_hand(self, gradient):
        summed = np.zeros(self.numbers.shape)
        heads = np.arange(gradient.shape[1]) * (len(summed) > 1)
        places = self.places(*gradient.shape[2:])
        np.add.at(summed, (heads[:, None, None], places), gradient.sum(0))
        return summed

    def places(self, queries, keys):
        i, j = np.mgrid[:queries, :keys]
        return np.minimum(np.maximum(j - i, -self.reach), self.reach) + self.reach


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Table(Bias):
    """A number for each query and key, [b, h, T, S]."""

    numbers: jax.Array

    def at(self, query_positions, key_positions):
        return self.numbers[:, :, query_positions][..., key_positions]

    def by_hand(self, queries, keys):
        return np.asarray(self.numbers)

    def gradient_by_hand(self, gradient):
        shared = tuple(axis for axis in (0, 1) if self.numbers.shape[axis] == 1)
        return gradient.sum(axis=shared, keepdims=True)


def toeplitz(heads, reach=3):
    return Toeplitz(jnp.asarray(normal(heads, 2 * reach + 1, seed=7)))


def table(*shape):
    return Table(jnp.asarray(normal(*shape, seed=8)))


def random_valid(batch, length, seed=1):
    return jnp.asarray(np.random.default_rng(seed).random((batch, length)) < 0.7)


def packed(batch, length, seed=2):
    """Rows of several sequences with padding between and in them."""
    draw = np.random.default_rng(seed)
    ids = np.sort(draw.integers(1, 4, (batch, length)), axis=1)
    return jnp.asarray(np.where(draw.random((batch, length)) < 0.2, 0, ids))


def window(size, **others):
    return Mask(window=size, **others)


def even(offset):
    return offset % 2 == 0


def thirds(offset):
    return offset % 3 == 0


valid_9, packed_9 = random_valid(2, 9), packed(2, 9)
no_key_in_reach = jnp.ones((2, 9), bool).at[0, 2:8].set(False).at[1].set(False)
ROWS_OF_70 = {"batch": 2, "queries": 70}
packed_70 = dict.fromkeys(("query_segments", "key_segments"), packed(2, 70))
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
    "a rule": ({"queries": 70}, window(11, rules=(even,))),
    "two rules, packed": (ROWS_OF_70, window(21, rules=(even, thirds), **packed_70)),
    "padded keys": ({"batch": 2}, window(3, key_segments=valid_9)),
    "padded queries": ({"batch": 2}, window(3, query_segments=valid_9)),
    "padding": ({"batch": 2}, window(3, query_segments=valid_9, key_segments=valid_9)),
    "no key in reach": ({"batch": 2}, window(3, key_segments=no_key_in_reach)),
    "no key in reach of areas": (
        {"batch": 2, "heads": 3},
        window(3, key_segments=no_key_in_reach, heads=3),
    ),
    "packed": (ROWS_OF_70, window(7, **packed_70)),
    "ids and truth values": (
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
        {**ROWS_OF_70, "heads": 4},
        window(7, **packed_70, direction="alternate", heads=3, head_edge="authors"),
    ),
}
# Cases that differ only for banded attention, which splits the sequence into blocks.
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
}
# name: (shape of the tensors, mask, bias, which serve it)
ANY_BIAS, TOEPLITZ = {"dense"}, {"dense", "banded"}
BIASED = {
    "toeplitz": ({}, Mask(), toeplitz(2), ANY_BIAS),
    "toeplitz of all heads, cross": ({"queries": 4, "keys": 7}, Mask(), toeplitz(1), ANY_BIAS),
    "toeplitz in a window": ({"queries": 70}, window(5), toeplitz(2), TOEPLITZ),
    "toeplitz in a window, one for all heads": ({}, window(5), toeplitz(1), TOEPLITZ),
    "toeplitz in a long window": ({"queries": 90}, window(41), toeplitz(2), TOEPLITZ),
    "toeplitz, packed, area of heads": (
        {**ROWS_OF_70, "heads": 4},
        window(7, **packed_70, heads=3, head_edge="authors"),
        toeplitz(4),
        TOEPLITZ,
    ),
    "table": ({"batch": 2}, masks.padding(valid_9), table(2, 2, 9, 9), ANY_BIAS),
    "table for all rows and heads": ({"batch": 2}, masks.causal(), table(1, 1, 9, 9), ANY_BIAS),
    "table in a window, area of heads": (
        {"batch": 2, "heads": 3},
        window(5, heads=3),
        table(2, 3, 9, 9),
        ANY_BIAS,
    ),
}
