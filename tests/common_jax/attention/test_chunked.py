"""Chunked attention: the reference's values and gradients for any size of chunks."""

import jax
import jax.numpy as jnp
import pytest

from common_jax import masks
from common_jax.attention import chunked
from common_jax.masks import Mask
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


@pytest.fixture
def chunks_of(monkeypatch):
    """Sets the number of weights in a chunk."""

    def chunks_of(count):
        monkeypatch.setattr(chunked, "CHUNK", count)
        value_and_gradients.clear_cache()

    yield chunks_of
    value_and_gradients.clear_cache()


@pytest.mark.parametrize(
    "case,one_row_at_a_time",
    [(case, True) for case in CASES]
    + [(case, False) for case, (shape, _) in CASES.items() if shape.get("batch", 1) > 1],
)
def test_values_and_gradients_equal_the_oracles(case, one_row_at_a_time, chunks_of):
    """For a batch of one row the program does not depend on the size of chunks."""
    chunks_of(1 if one_row_at_a_time else 2**30)
    shape, mask = CASES[case]
    arrays = tensors(**shape)
    check_against_oracle(arrays, mask, "chunked")
    call = lambda q, k, v: attention(q, k, v, mask, implementation="chunked")
    in_a_loop = "scan" in str(jax.make_jaxpr(call)(*arrays[:3]))
    assert in_a_loop == (one_row_at_a_time and len(arrays[0]) > 1)


@pytest.mark.parametrize("rows", [2, 3])
def test_a_batch_need_not_be_a_multiple_of_a_chunk(rows, chunks_of):
    chunks_of(rows * 2 * 9 * 9)
    valid = random_valid(5, 9)
    check_against_oracle(tensors(batch=5), masks.padding(valid, valid), "chunked")


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


def test_memory_is_that_of_a_chunk(chunks_of):
    def temporaries(rows):
        chunks_of(rows * 8 * 256 * 256)
        arrays = [jax.ShapeDtypeStruct((32, 256, 8, 16), jnp.float32)] * 4
        lowered = value_and_gradients.lower(*arrays, Mask(), implementation="chunked")
        return lowered.compile().memory_analysis().temp_size_in_bytes

    weights = 4 * 32 * 8 * 256 * 256
    assert temporaries(1) < weights / 2 < temporaries(32)
