"""Attention in bfloat16, on a mesh, with a large bias, and its memory."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from common_jax import masks
from common_jax.attention import chunked
from common_jax.masks import Mask
from tests.common_jax.attention import numpy_reference
from tests.common_jax.attention.cases import (
    Toeplitz,
    attention,
    each_implementation,
    packed,
    random_valid,
    tensors,
    toeplitz,
    value_and_gradients,
    window,
    with_and_without_an_area,
)


@with_and_without_an_area
def test_bfloat16(implementation, heads):
    """bfloat16 rounds by at most 2^-9: once each for the weights and the output.

    Gradients pass two products more, whose errors partly cancel: they are held to 2^-7 in norm.
    """
    arrays = [x.astype(jnp.bfloat16) for x in tensors(batch=2, queries=40, heads=3, size=16)]
    mask = window(11, heads=heads, key_segments=random_valid(2, 40))
    got = value_and_gradients(*arrays, mask, implementation=implementation)
    assert all(x.dtype == jnp.bfloat16 for x in got)
    got = [np.asarray(x, np.float64) for x in got]
    exact = [np.asarray(x, np.float64) for x in arrays]
    want = numpy_reference.attend(*exact[:3], mask, cotangent=exact[3])
    np.testing.assert_allclose(got[0], want.out, atol=2**-8 * np.abs(exact[2]).max(), rtol=0)
    for g, w in zip(got[1:], (want.query_grad, want.key_grad, want.value_grad), strict=True):
        assert np.linalg.norm(g - w) < 2**-7 * np.linalg.norm(w)


@each_implementation
def test_a_sharded_batch_needs_no_communication(implementation):
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    by_batch = NamedSharding(mesh, PartitionSpec("data"))
    arrays, ids = tensors(batch=8, queries=40), packed(8, 40)

    def run(query, key, value, cotangent, ids, rng):
        mask = window(5, query_segments=ids, key_segments=ids, heads=3)
        call = functools.partial(
            attention, mask=mask, dropout_rate=0.1, dropout_key=rng, implementation=implementation
        )
        out, back = jax.vjp(call, query, key, value)
        return out, *back(cotangent)

    inputs = (*arrays, ids, jax.random.key(0))
    here = jax.jit(run)(*inputs)
    shardings = (by_batch,) * 5 + (NamedSharding(mesh, PartitionSpec()),)
    spread = jax.jit(run, in_shardings=shardings, out_shardings=by_batch).lower(*inputs).compile()
    assert not any(word in spread.as_text() for word in ("all-gather", "all-reduce", "all-to-all"))
    for a, b in zip(here, spread(*jax.device_put(inputs, shardings)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def temporary_bytes(implementation, shape, mask, bias=None):
    """Of the program of value and gradients for tensors [B, T, H, K]."""
    arrays = [jax.ShapeDtypeStruct(shape, jnp.float32)] * 4
    lowered = value_and_gradients.lower(*arrays, mask, bias, implementation=implementation)
    return lowered.compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("bias", [None, toeplitz(8, reach=5)], ids=["without a bias", "biased"])
def test_banded_memory_is_linear_in_length_and_a_tenth_of_denses(bias):
    mask, long = window(11, heads=3), (1, 2048, 8, 64)
    banded = temporary_bytes("banded", long, mask, bias)
    assert banded <= 0.1 * temporary_bytes("dense", long, mask, bias)
    assert banded <= 2.2 * temporary_bytes("banded", (1, 1024, 8, 64), mask, bias)


@each_implementation
def test_a_large_bias_decides_alone_and_stays_finite(implementation):
    """0 for j = i and -10^6 elsewhere: each query gets its own value."""
    query, key, value, _ = tensors(queries=40)
    own = Toeplitz(jnp.full((1, 7), -1e6).at[0, 3].set(0.0))
    out = attention(query, key, value, window(7), own, implementation=implementation)
    np.testing.assert_allclose(out, value, atol=1e-6)


def test_memory_is_that_of_a_chunk(monkeypatch):
    def temporaries(rows):
        monkeypatch.setattr(chunked, "CHUNK", rows * 8 * 256 * 256)
        value_and_gradients.clear_cache()
        return temporary_bytes("chunked", (32, 256, 8, 16), Mask())

    weights = 4 * 32 * 8 * 256 * 256
    assert temporaries(1) < weights / 2 < temporaries(32)
    value_and_gradients.clear_cache()


def test_nothing_as_large_as_the_weights_is_kept_for_the_backward_pass():
    *inputs, _ = tensors(batch=4, queries=40)
    mask = masks.segments(packed(4, 40), packed(4, 40))

    def largest(implementation):
        call = functools.partial(attention, implementation=implementation)
        backward = lambda q, k, v: jax.vjp(lambda *x: call(*x, mask), q, k, v)[1]
        return max(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(backward, *inputs)))

    assert largest("chunked") < 4 * 2 * 40 * 40 <= largest("dense")
