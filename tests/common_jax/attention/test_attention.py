"""Every implementation of attention, with and without biases, against one reference; conjunctions
of masks, and softmax."""

import functools
import typing

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from scipy.special import softmax

from common_jax import attention as library
from common_jax import masks
from common_jax.attention import chunked
from common_jax.attention.api import FORMS
from common_jax.masks import Mask
from tests.common_jax.attention import cases, numpy_reference
from tests.common_jax.attention.cases import attention, tensors, value_and_gradients, window

CASES = cases.SELF_ATTENTION_IN_A_WINDOW | cases.DENSE_ONLY
WITHOUT_AN_AREA = [name for name, case in CASES.items() if case[1].heads == 1]
OF_SEVERAL_ROWS = [name for name in WITHOUT_AN_AREA if CASES[name][0].get("batch", 1) > 1]
SCALE = {"window longer than the sequence": 2.0}


@pytest.fixture
def chunks_of(monkeypatch):
    """Sets the number of weights in a chunk."""

    def chunks_of(count):
        monkeypatch.setattr(chunked, "CHUNK", count)
        value_and_gradients.clear_cache()

    yield chunks_of
    value_and_gradients.clear_cache()


@pytest.mark.parametrize(
    "case,implementation",
    [(case, "dense") for case in CASES if case not in cases.OF_BLOCKS]
    + [(case, "banded") for case in cases.SELF_ATTENTION_IN_A_WINDOW],
)
def test_values_and_gradients_equal_the_oracles(case, implementation):
    shape, mask = CASES[case]
    cases.check_against_oracle(tensors(**shape), mask, implementation, SCALE.get(case))


@pytest.mark.parametrize(
    "case,one_row_at_a_time",
    [(case, True) for case in WITHOUT_AN_AREA] + [(case, False) for case in OF_SEVERAL_ROWS],
)
def test_chunks_of_one_row_and_of_all_equal_the_oracle(case, one_row_at_a_time, chunks_of):
    """For a batch of one row the program does not depend on the size of chunks."""
    chunks_of(1 if one_row_at_a_time else 2**30)
    shape, mask = CASES[case]
    arrays = tensors(**shape)
    cases.check_against_oracle(arrays, mask, "chunked", SCALE.get(case))
    call = lambda q, k, v: attention(q, k, v, mask, implementation="chunked")
    in_a_loop = "scan" in str(jax.make_jaxpr(call)(*arrays[:3]))
    assert in_a_loop == (one_row_at_a_time and len(arrays[0]) > 1)


@pytest.mark.parametrize("rows", [2, 3])
def test_a_batch_need_not_be_a_multiple_of_a_chunk(rows, chunks_of):
    chunks_of(rows * 2 * 9 * 9)
    valid = cases.random_valid(5, 9)
    cases.check_against_oracle(tensors(batch=5), masks.padding(valid, valid), "chunked")


@pytest.mark.parametrize("implementation", FORMS)
@pytest.mark.parametrize("case", cases.BIASED)
def test_a_bias_equals_the_oracle_or_is_rejected(case, implementation):
    shape, mask, bias, serve = cases.BIASED[case]
    arrays = tensors(**shape)
    if implementation in serve:
        cases.check_against_oracle(arrays, mask, implementation, bias=bias)
    else:
        with pytest.raises(ValueError, match=f"{implementation} attention does not support"):
            attention(*arrays[:3], mask, bias, implementation=implementation)


@pytest.mark.parametrize("implementation", ["dense", "banded", "chunked"])
def test_large_scores_do_not_overflow(implementation):
    """Scores in the thousands carry rounding errors of 1e-4 in float32, and so do the weights."""
    query, key, value, cotangent = tensors()
    arrays = query, key * 1000, value
    got = value_and_gradients(*arrays, cotangent, window(5), implementation=implementation)
    assert all(np.isfinite(x).all() for x in got)
    np.testing.assert_allclose(got[0], numpy_reference.attend(*arrays, window(5)).out, atol=1e-3)


@cases.with_and_without_an_area
@pytest.mark.parametrize("rubbish", [np.nan, np.inf])
def test_padding_does_not_affect_values_or_gradients(implementation, heads, rubbish):
    valid = np.array(cases.random_valid(2, 40, seed=5))
    valid[1] = False
    mask = masks.padding(jnp.asarray(valid), jnp.asarray(valid))
    mask = mask & masks.token_window(5) & masks.head_window(heads, "authors")
    *inputs, cotangent = tensors(batch=2, queries=40, heads=3)
    results = []
    for fill in (0, rubbish):
        filled = [np.where(valid[..., None, None], x, np.float32(fill)) for x in inputs]
        results.append(value_and_gradients(*filled, cotangent, mask, implementation=implementation))
    for clean, dirty in zip(*results, strict=True):
        np.testing.assert_array_equal(clean, dirty)
        assert not np.asarray(dirty)[~valid].any()
        assert np.isfinite(dirty).all()


def test_weights():
    """Of areas of heads with each edge, and with a bias."""
    arrays = tensors(batch=2, heads=4)[:3]
    options = {"heads": 3, "key_segments": cases.valid_9, "direction": "alternate"}
    edges = typing.get_args(masks.HeadEdge)
    forms = [(window(5, head_edge=edge, **options), None) for edge in edges]
    forms.append((window(5), cases.table(1, 4, 9, 9)))
    attend = lambda arrays: [attention(*arrays, *form, return_weights=True) for form in forms]
    for (mask, bias), (out, weights) in zip(forms, jax.jit(attend)(arrays), strict=True):
        want = numpy_reference.attend(*arrays, mask, bias and bias.by_hand(9, 9))
        np.testing.assert_allclose(weights, want.weights, atol=1e-6, err_msg=mask.head_edge)
        np.testing.assert_allclose(out, want.out, atol=1e-5, err_msg=mask.head_edge)
        assert weights.dtype == jnp.float32


@cases.each_implementation
def test_dropout_zeroes_weights_and_scales_the_others(implementation):
    """With the identity as values, the output is the weights."""
    length, rate = 33, 0.4
    query, key, _, _ = tensors(queries=length, heads=2)
    value = np.broadcast_to(np.eye(length, dtype=np.float32)[:, None], (1, length, 2, length))
    call = functools.partial(attention, mask=window(5), implementation=implementation)

    @jax.jit
    def dropped(seeds):
        options = lambda seed: {"dropout_rate": rate, "dropout_key": jax.random.key(seed)}
        return jax.lax.map(lambda seed: call(query, key, value, **options(seed)), seeds)

    weights = np.asarray(jax.jit(call)(query, key, value))
    draws = np.asarray(dropped(jnp.arange(100)))
    remaining = draws != 0
    expected = np.broadcast_to(weights / (1 - rate), draws.shape)
    np.testing.assert_allclose(draws[remaining], expected[remaining], rtol=1e-4)
    stayed = remaining[:, weights > 0]
    assert abs(stayed.mean() - (1 - rate)) < 4 * np.sqrt(rate * (1 - rate) / stayed.size)
    deviation = weights * np.sqrt(rate / (1 - rate) / len(draws))
    assert (np.abs(draws.mean(0) - weights) <= 5 * deviation + 1e-6).all()
    np.testing.assert_array_equal(draws, dropped(jnp.arange(100)))
    assert (draws[0] != draws[1]).any()


@cases.each_implementation
def test_gradient_under_dropout(implementation):
    """With a constant random key, the output is linear in the values and smooth in the queries."""
    query, key, value, cotangent = tensors(queries=40, heads=3)

    def run(query):
        return value_and_gradients(
            *(query, key, value, cotangent, window(5, heads=3)),
            implementation=implementation,
            dropout_rate=0.25,
            dropout_key=jax.random.key(0),
        )

    out, query_grad, _, value_grad = run(query)
    np.testing.assert_allclose((value_grad * value).sum(), (out * cotangent).sum(), rtol=1e-4)
    move = np.random.default_rng(6).standard_normal(query.shape).astype(np.float32)
    ends = [(run(query + sign * 1e-2 * move)[0] * cotangent).sum() for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / 2e-2
    np.testing.assert_allclose((query_grad * move).sum(), slope, rtol=2e-3)


@pytest.mark.parametrize(
    "shape, mask, options, reason",
    [
        ({}, Mask(), {"implementation": "banded"}, "without a token window"),
        ({}, window(3), {"implementation": "banded", "return_weights": True}, "weights"),
        ({"keys": 5}, window(3), {"implementation": "banded"}, "numbers of queries and keys"),
        ({}, masks.head_window(3), {"implementation": "chunked"}, "area of heads"),
        ({}, Mask(), {"implementation": "chunked", "return_weights": True}, "weights"),
        ({}, Mask(), {"implementation": "chunked", "dropout_rate": 0.1}, "support dropout"),
        ({}, Mask(), {"dropout_rate": 0.1}, "key"),
        ({}, Mask(), {"dropout_rate": 1.0, "dropout_key": jax.random.key(0)}, "below 1"),
        ({}, masks.head_window(5), {}, "does not fit"),
    ],
)
def test_unsupported_requests_raise(shape, mask, options, reason):
    with pytest.raises(ValueError, match=reason):
        attention(*tensors(**shape)[:3], mask, **options)


@pytest.mark.parametrize(
    "shapes",
    [[(5, 2, 3)] * 3, [(1, 5, 4, 3), (1, 5, 2, 3), (1, 5, 2, 3)], [(1, 5, 2, 3), (1, 5, 2, 4)] * 2],
)
def test_shapes_that_do_not_fit_are_refused(shapes):
    with pytest.raises(ValueError, match="query, key and value"):
        library.attention.__wrapped__(*map(jnp.zeros, shapes))


@pytest.mark.parametrize(
    "shape, mask, options, choice",
    [
        ({"queries": 64}, window(11), {}, "dense"),
        ({"queries": 128}, window(11), {}, "banded"),
        ({"queries": 128}, window(65), {}, "dense"),
        ({"queries": 128}, Mask(), {}, "dense"),
        ({"queries": 128, "keys": 127}, window(11), {}, "dense"),
        ({"queries": 128}, window(11), {"return_weights": True}, "dense"),
        ({"queries": 128}, window(11), {"bias": cases.toeplitz(2)}, "banded"),
        ({"queries": 128}, window(11), {"bias": cases.table(1, 2, 128, 128)}, "dense"),
    ],
)
def test_auto_selects_the_faster_supported_implementation(shape, mask, options, choice):
    arrays = tensors(**shape)[:3]

    def program(implementation):
        call = functools.partial(attention, mask=mask, implementation=implementation, **options)
        return str(jax.make_jaxpr(call)(*arrays))

    assert program("auto") == program(choice)


@pytest.mark.parametrize("implementation", ["auto", "banded", "chunked"])
def test_symbolic_lengths_have_the_dense_forms_values(implementation):
    wide = {} if implementation == "chunked" else {"window": 3, "heads": 3}

    def attend(arrays, valid, implementation=implementation):
        mask = masks.padding(valid, valid) & Mask(**wide)
        return attention(*arrays, mask, implementation=implementation)

    dims = jax.export.symbolic_shape("B, T, 4, 2")
    array = jax.ShapeDtypeStruct(dims, np.float32)
    valid = jax.ShapeDtypeStruct(dims[:2], np.bool_)
    exported = jax.export.export(jax.jit(attend))((array,) * 3, valid)
    for batch, length in ((1, 3), (2, 200)):
        random = np.random.default_rng(length)
        arrays = tuple(random.standard_normal((3, batch, length, 4, 2)).astype(np.float32))
        valid = random.random((batch, length)) < 0.8
        want = jax.jit(attend, static_argnums=2)(arrays, valid, "dense")
        np.testing.assert_allclose(exported.call(arrays, valid), want, atol=1e-6)


def test_half_precision_keeps_the_biass_bits():
    """1000 + 1/4 and 1000 are equal in bfloat16; 1/4 decides between two equal keys."""
    query, key = (jnp.zeros((1, n, 1, 2), jnp.bfloat16) for n in (1, 2))
    value = jnp.eye(2, dtype=jnp.bfloat16)[None, :, None]
    bias = cases.Toeplitz(jnp.float32([[0, 1000.0, 1000.25]]))
    weights = attention(query, key, value, Mask(), bias)[0, 0, 0]
    np.testing.assert_allclose(weights, 1 / (1 + np.exp([0.25, -0.25])), atol=4e-3)


@pytest.mark.slow
@cases.with_and_without_an_area
def test_bfloat16(implementation, heads):
    """bfloat16 rounds by at most 2^-9: once each for the weights and the output.

    Gradients pass two products more, whose errors partly cancel: they are held to 2^-7 in norm.
    """
    arrays = [x.astype(jnp.bfloat16) for x in tensors(batch=2, queries=40, heads=3, size=16)]
    mask = window(11, heads=heads, key_segments=cases.random_valid(2, 40))
    got = value_and_gradients(*arrays, mask, implementation=implementation)
    assert all(x.dtype == jnp.bfloat16 for x in got)
    got = [np.asarray(x, np.float64) for x in got]
    exact = [np.asarray(x, np.float64) for x in arrays]
    want = numpy_reference.attend(*exact[:3], mask, cotangent=exact[3])
    np.testing.assert_allclose(got[0], want.out, atol=2**-8 * np.abs(exact[2]).max(), rtol=0)
    for g, w in zip(got[1:], (want.query_grad, want.key_grad, want.value_grad), strict=True):
        assert np.linalg.norm(g - w) < 2**-7 * np.linalg.norm(w)


@pytest.mark.slow
@cases.each_implementation
def test_a_sharded_batch_needs_no_communication(implementation):
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    by_batch = NamedSharding(mesh, PartitionSpec("data"))
    arrays, ids = tensors(batch=8, queries=40), cases.packed(8, 40)

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


@pytest.mark.slow
@pytest.mark.parametrize("bias", [None, cases.toeplitz(8, reach=5)], ids=["none", "biased"])
def test_banded_memory_is_linear_in_length_and_a_tenth_of_denses(bias):
    mask, long = window(11, heads=3), (1, 2048, 8, 64)
    banded = temporary_bytes("banded", long, mask, bias)
    assert banded <= 0.1 * temporary_bytes("dense", long, mask, bias)
    assert banded <= 2.2 * temporary_bytes("banded", (1, 1024, 8, 64), mask, bias)


@pytest.mark.slow
@cases.each_implementation
def test_a_large_bias_decides_alone_and_stays_finite(implementation):
    """0 for j = i and -10^6 elsewhere: each query gets its own value."""
    query, key, value, _ = tensors(queries=40)
    own = cases.Toeplitz(jnp.full((1, 7), -1e6).at[0, 3].set(0.0))
    out = attention(query, key, value, window(7), own, implementation=implementation)
    np.testing.assert_allclose(out, value, atol=1e-6)


@pytest.mark.slow
def test_memory_is_that_of_a_chunk(monkeypatch):
    def temporaries(rows):
        monkeypatch.setattr(chunked, "CHUNK", rows * 8 * 256 * 256)
        value_and_gradients.clear_cache()
        return temporary_bytes("chunked", (32, 256, 8, 16), Mask())

    weights = 4 * 32 * 8 * 256 * 256
    assert temporaries(1) < weights / 2 < temporaries(32)
    value_and_gradients.clear_cache()


@pytest.mark.slow
def test_nothing_as_large_as_the_weights_is_kept_for_the_backward_pass():
    *inputs, _ = tensors(batch=4, queries=40)
    mask = masks.segments(cases.packed(4, 40), cases.packed(4, 40))

    def largest(implementation):
        call = functools.partial(attention, implementation=implementation)
        backward = lambda q, k, v: jax.vjp(lambda *x: call(*x, mask), q, k, v)[1]
        return max(leaf.size for leaf in jax.tree.leaves(jax.eval_shape(backward, *inputs)))

    assert largest("chunked") < 4 * 2 * 40 * 40 <= largest("dense")


def expanded(mask: Mask, queries: int, keys: int, heads: int = 1) -> np.ndarray:
    return np.asarray(mask.allowed(queries, keys, heads))


EVEN, NEAR = (lambda offset: offset % 2 == 0), (lambda offset: abs(offset) < 3)

RULES = masks.relative(EVEN) & masks.relative(NEAR) & masks.relative(EVEN)

PAIR_OF_ONES = masks.segments(jnp.ones((1, 2), int), jnp.ones((1, 2), int))


def test_conjunction_is_the_intersection():
    ids = jnp.array([[1, 1, 2, 2, 2], [3, 3, 3, 0, 0]])
    keep = jnp.array([[True, False, True, True, True], [True, True, False, True, True]])
    windows = masks.token_window(3), masks.token_window(7)
    everything = Mask()
    parts = [masks.segments(ids, ids), masks.padding(keep, keep), *windows, masks.causal()]
    for part in parts:
        everything = everything & part
    separate = np.logical_and.reduce(np.broadcast_arrays(*(expanded(p, 5, 5) for p in parts)))
    np.testing.assert_array_equal(expanded(everything, 5, 5), separate)
    assert everything.window == 3 and everything.direction == "left"
    assert RULES.rules == (EVEN, NEAR)
    area = masks.head_window(3, "wrap")
    for other in (masks.causal(), masks.head_window(1), area):
        for combined in (area & other, other & area):
            assert (combined.heads, combined.head_edge) == (3, "wrap")


@pytest.mark.parametrize(
    "one, other",
    [
        (masks.causal(), masks.direction("right")),
        (masks.causal(), masks.direction("alternate")),
        (masks.head_window(3), masks.head_window(5)),
        (masks.head_window(3), masks.head_window(3, "wrap")),
        (PAIR_OF_ONES, PAIR_OF_ONES),
    ],
)
def test_conflicts_raise(one, other):
    with pytest.raises(ValueError, match="do not combine"):
        one & other


@pytest.mark.parametrize("make", [masks.token_window, masks.head_window])
@pytest.mark.parametrize("size", [0, 2, -1])
def test_windows_are_odd(make, size):
    with pytest.raises(ValueError, match="odd"):
        make(size)


@pytest.mark.parametrize("axis", [-1, 1])
def test_masked_softmax_is_each_lines_own_and_zero_where_nothing_is_allowed(axis):
    random = np.random.default_rng(0)
    allowed = random.random((2, 4, 5)) < 0.6
    allowed[0, 2] = allowed[1, :, 3] = False
    scores = np.where(allowed, 5 * random.standard_normal(allowed.shape), np.nan)
    cotangent = random.standard_normal(allowed.shape)
    weights = softmax(np.where(allowed, scores, -1e9), axis=axis) * allowed
    slopes = weights * (cotangent - (weights * cotangent).sum(axis, keepdims=True))
    masked = lambda scores: masks.masked_softmax(scores, jnp.asarray(allowed), axis=axis)
    got, pull = jax.vjp(masked, jnp.asarray(scores, jnp.float32))
    (gradient,) = pull(jnp.asarray(cotangent, jnp.float32))
    for actual, expected in ((got, weights), (gradient, slopes)):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
        assert not np.asarray(actual)[~allowed].any()
