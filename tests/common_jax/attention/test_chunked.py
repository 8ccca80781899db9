"""Chunked attention: the reference's values and gradients for any size of chunks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax import masks
from common_jax.attention import chunked
from common_jax.masks import Mask
from tests.common_jax.attention import numpy_reference
from tests.common_jax.attention.cases import (
    DENSE_ONLY,
    SELF_ATTENTION_IN_A_WINDOW,
    attention,
    check_against_oracle,
    packed,
    random_valid,
    tensors,
    value_and_gradients,
)

CASES = {
    name: case
    for name, case in (SELF_ATTENTION_IN_A_WINDOW | DENSE_ONLY).items()
    if case[1].heads == 1
}


@pytest.fixture(params=[True, False], ids=["one row at a time", "all at once"])
def in_chunks(request, monkeypatch):
    """Whether chunks have one row, or all."""
    one = request.param
    monkeypatch.setattr(chunked, "CHUNK", 1 if one else 2**30)
    value_and_gradients.clear_cache()
    yield one
    value_and_gradients.clear_cache()


@pytest.mark.parametrize(
    "case,in_chunks",
    [(case, True) for case in CASES]
    + [(case, False) for case, (shape, _) in CASES.items() if shape.get("batch", 1) > 1],
    indirect=["in_chunks"],
)
def test_values_and_gradients_equal_the_oracles(case, in_chunks):
    """For a batch of one row the program does not depend on the size of chunks."""
    shape, mask = CASES[case]
    arrays = tensors(**shape)
    check_against_oracle(arrays, mask, "chunked")
    call = lambda q, k, v: attention(q, k, v, mask, implementation="chunked")
    assert ("scan" in str(jax.make_jaxpr(call)(*arrays[:3]))) == (in_chunks and len(arrays[0]) > 1)


@pytest.mark.parametrize("rows", [2, 3])
def test_a_batch_need_not_be_a_multiple_of_a_chunk(rows, monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK", rows * 2 * 9 * 9)
    value_and_gradients.clear_cache()
    valid = random_valid(5, 9)
    check_against_oracle(tensors(batch=5), masks.padding(valid, valid), "chunked")
    value_and_gradients.clear_cache()


def test_rows_without_a_key_are_zero_in_value_and_gradient(in_chunks):
    valid = np.ones((2, 9), bool)
    valid[0, 2:8], valid[1] = False, False
    arrays, mask = tensors(batch=2), masks.padding(jnp.asarray(valid)) & masks.token_window(3)
    check_against_oracle(arrays, mask, "chunked")
    out, query_grad, key_grad, value_grad = (
        np.asarray(x) for x in value_and_gradients(*arrays, mask, implementation="chunked")
    )
    assert out[0, :3].all() and query_grad[0, :2].all()
    for x in (out, query_grad):
        assert not x[0, 3:7].any() and not x[1].any()
    for x in (key_grad, value_grad):
        assert not x[0, 2:8].any() and not x[1].any()


@pytest.mark.parametrize("rubbish", [np.nan, np.inf])
def test_what_stands_in_padding_reaches_nothing(rubbish):
    valid = np.array(random_valid(2, 40, seed=5))
    valid[1] = False
    mask = masks.padding(jnp.asarray(valid), jnp.asarray(valid))
    *inputs, cotangent = tensors(batch=2, queries=40)
    results = []
    for fill in (0, rubbish):
        filled = [np.where(valid[..., None, None], x, np.float32(fill)) for x in inputs]
        results.append(value_and_gradients(*filled, cotangent, mask, implementation="chunked"))
    for clean, dirty in zip(*results, strict=True):
        np.testing.assert_array_equal(clean, dirty)
        assert not np.asarray(dirty)[~valid].any()
        assert np.isfinite(dirty).all()


def test_large_scores_do_not_overflow():
    query, key, value, cotangent = tensors()
    got = value_and_gradients(query, key * 1000, value, cotangent, Mask(), implementation="chunked")
    assert all(np.isfinite(x).all() for x in got)
    expected = numpy_reference.attend(query, key * 1000, value, Mask()).out
    np.testing.assert_allclose(got[0], expected, atol=1e-3)


def test_bfloat16():
    """With the bounds of the other implementations (`test_attention.test_bfloat16`)."""
    arrays = [x.astype(jnp.bfloat16) for x in tensors(batch=2, queries=40, heads=3, size=16)]
    mask = masks.padding(random_valid(2, 40))
    got = value_and_gradients(*arrays, mask, implementation="chunked")
    assert all(x.dtype == jnp.bfloat16 for x in got)
    got = [np.asarray(x, np.float64) for x in got]
    exact = [np.asarray(x, np.float64) for x in arrays]
    want = numpy_reference.attend(*exact[:3], mask, cotangent=exact[3])
    np.testing.assert_allclose(got[0], want.out, atol=2**-8 * np.abs(exact[2]).max(), rtol=0)
    for g, w in zip(got[1:], (want.query_grad, want.key_grad, want.value_grad), strict=True):
        assert np.linalg.norm(g - w) < 2**-7 * np.linalg.norm(w)


def test_nothing_as_large_as_the_weights_is_kept_for_the_backward_pass():
    *inputs, _ = tensors(batch=4, queries=40)
    ids = packed(4, 40)
    sizes = {}
    for implementation in ("dense", "chunked"):
        call = lambda q, k, v, form=implementation: attention(
            q, k, v, masks.segments(ids, ids), implementation=form
        )
        backward = jax.eval_shape(lambda *x, f=call: jax.vjp(f, *x)[1], *inputs)
        sizes[implementation] = max(leaf.size for leaf in jax.tree.leaves(backward))
    assert sizes["chunked"] < 4 * 2 * 40 * 40 <= sizes["dense"]


def test_memory_is_that_of_a_chunk(monkeypatch):
    def temporaries(rows):
        monkeypatch.setattr(chunked, "CHUNK", rows * 8 * 256 * 256)
        value_and_gradients.clear_cache()
        arrays = [jax.ShapeDtypeStruct((32, 256, 8, 16), jnp.float32)] * 4
        lowered = value_and_gradients.lower(*arrays, Mask(), implementation="chunked")
        return lowered.compile().memory_analysis().temp_size_in_bytes

    weights = 4 * 32 * 8 * 256 * 256
    assert temporaries(1) < weights / 2 < temporaries(32)
