"""Convolutions, stacks of equal layers, dropout and position encodings, against NumPy."""

import itertools

import flax.linen as nn
import jax
import jax.export
import jax.extend.random
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import rnn

from common_jax import recurrent
from common_jax.convolution import depthwise
from common_jax.dropout import dropout, threefry
from common_jax.layers import NEAR, sinusoids
from common_jax.recurrent import LSTM, State
from common_jax.stack import Stack
from tests import random_params
from tests.gradcheck import assert_equals
from tests.random_params import normal


@pytest.mark.parametrize("ids", [None, [1], [1] * 6, [1, 1, 2, 2, 2, 0], [True] * 4 + [False]])
def test_depthwise_filters_of_rows_alone_packed_and_padded(ids):
    length = 6 if ids is None else len(ids)
    segments = None if ids is None else jnp.array([ids, ids])

    def by_hand(x, filters):
        own = [1] * length if ids is None else ids
        out = np.zeros_like(x)
        for i, j in itertools.product(range(length), repeat=2):
            if abs(i - j) <= 2 and own[i] == own[j] != 0:
                out[:, i] += x[:, j] * filters[j - i + 2]
        return out

    convolve = lambda x, filters: depthwise(x, filters, segments)
    assert_equals(convolve, by_hand, normal(2, length, 3), normal(5, 3, seed=2))


COUNT = 3


class Layer(nn.Module):
    """tanh(w x + shift + scale own), with w and own of each layer."""

    @nn.compact
    def __call__(self, x, shift, scale, own, *, train):
        w = self.param("w", nn.initializers.normal(1.0), (x.shape[-1],))
        return jnp.tanh(w[None, None] * x + shift + scale * own[None, None])


@pytest.mark.parametrize("options", [{}, {"unroll": True}, {"remat": True}])
def test_each_layer_of_a_stack_gets_its_own_part_behind_what_its_span_gets(options):
    spans = [(1, (jnp.float32(0.25),)), (2, (jnp.float32(-0.5),))]
    stack = Stack(Layer, COUNT, params_name="equal", **options)

    def stacked(w, x, scale, own):
        params = {"equal": {"w": w}}
        return stack.apply({"params": params}, x, spans, train=False, stacked=(scale, own))

    def by_hand(w, x, scale, own):
        for n, shift in enumerate([0.25, -0.5, -0.5]):
            x = np.tanh(w[n][None, None] * x + shift + scale[n] * own[n][None, None])
        return x

    w, own = normal(2, COUNT, 5)
    assert_equals(stacked, by_hand, w, normal(2, 4, 5, seed=2), normal(COUNT, seed=3), own)


def test_initialisation_gives_each_layer_of_a_stack_its_parameters_and_runs_none():
    traced = []

    class Counted(nn.Module):
        @nn.compact
        def __call__(self, x, *, train):
            traced.append(train)
            w = self.param("w", nn.initializers.normal(1.0), (x.shape[-1],))
            return x * w[None, None]

    x = jnp.ones((1, 1, 5))
    stack = Stack(Counted, COUNT)
    out, variables = stack.init_with_output(jax.random.key(0), x, [(COUNT, ())], train=False)
    assert traced == [False]  # for the parameters of all layers
    assert (out.shape, out.dtype) == (x.shape, x.dtype)
    w = nn.unbox(variables)["params"]["layers"]["w"]
    assert w.shape == (COUNT, 5)
    assert len(np.unique(w)) == COUNT * 5
    out = stack.apply(variables, x, [(COUNT, ())], train=False)
    np.testing.assert_allclose(out[0, 0], np.prod(w, axis=0), rtol=1e-6)


def dropped(x, rate, seed):
    return np.asarray(dropout(x, rate, jax.random.key(seed)))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.003])
def test_dropout_keeps_its_share_of_elements_and_scales_them(rate):
    out = dropped(jnp.ones((1000, 1001)), rate, 0)
    mask = out != 0
    deviation = np.sqrt(rate * (1 - rate) / out.size)
    assert abs(mask.mean() - (1 - rate)) < 4 * deviation
    np.testing.assert_allclose(out[mask], 1 / (1 - rate), rtol=2e-5)


def test_dropped_elements_are_independent():
    """Neighbours, and the two elements from one word of random bits, drop independently."""
    mask = dropped(jnp.ones((2000, 512)), 0.3, 1) != 0
    for shift in (1, 2, 256):
        both = mask[:, shift:] & mask[:, :-shift]
        assert abs(both.mean() - 0.49) < 4 * np.sqrt(0.25 / both.size)


def test_random_words_are_those_of_jaxs_threefry():
    key = jax.random.key(11)
    counters = jax.random.bits(jax.random.key(12), (2, 500), jnp.uint32)
    words = jnp.stack(threefry(key, *counters))
    expected = jax.extend.random.threefry_2x32(jax.random.key_data(key), counters.reshape(-1))
    np.testing.assert_array_equal(words, expected.reshape(2, 500))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 3, 4)])
def test_dropout_of_any_shape_and_dtype(shape, dtype):
    out = dropped(jnp.ones(shape, dtype), 0.5, 2)
    assert out.shape == shape and out.dtype == dtype
    assert set(out.astype(np.float32).ravel().tolist()) <= {0.0, 2.0}


def test_one_key_gives_one_dropout_whose_gradient_passes_where_the_element_stayed():
    x = jnp.asarray(normal(64, 7))
    out, back = jax.vjp(lambda x: dropout(x, 0.4, jax.random.key(4)), x)
    np.testing.assert_array_equal(out, dropped(x, 0.4, 4))
    assert np.any(np.asarray(out) != dropped(x, 0.4, 5))
    np.testing.assert_allclose(back(jnp.ones_like(x))[0] * x, out, rtol=1e-6)
    np.testing.assert_array_equal(dropout(x, 0.0, None), x)


@pytest.mark.parametrize("rate, seed", [(1.0, 0), (-0.1, 0), (0.1, None)])
def test_a_rate_that_is_none_or_without_a_key_is_refused(rate, seed):
    with pytest.raises(ValueError, match="dropout"):
        dropout(jnp.ones(3), rate, None if seed is None else jax.random.key(seed))


def test_position_encodings_of_a_symbolic_length_are_those_of_any():
    zeros = jax.ShapeDtypeStruct(jax.export.symbolic_shape("T"), np.float32)
    encode = jax.export.export(jax.jit(lambda x: sinusoids(x.shape[0], 6)))(zeros)
    for length in (1, NEAR, 40_000):
        angles = np.arange(length)[:, None] / 10_000.0 ** (np.arange(3)[None] / 2)
        want = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        computed = np.asarray(encode.call(np.zeros(length, np.float32)))
        np.testing.assert_allclose(computed, want, atol=4e-5)
        np.testing.assert_allclose(computed[:5_000], want[:5_000], atol=5e-6)
        np.testing.assert_array_equal(computed[:NEAR], sinusoids(length, 6)[:NEAR])


INPUTS, SIZE = 3, 2

RANDOM = np.random.default_rng(0)

X = RANDOM.standard_normal((4, 5, INPUTS)).astype(np.float32)

VALID = np.arange(5)[None] < np.array([5, 1, 3, 0])[:, None]

FIRST = State(*RANDOM.standard_normal((2, 4, SIZE)).astype(np.float32))


@pytest.mark.parametrize("reverse", [False, True])
def test_texts_are_passed_to_cudnn_and_back(monkeypatch, reverse):
    """With cuDNN's reference in its place; texts of all lengths, an empty one too."""

    def lstm(x, h, c, weights, lengths, *sizes):
        assert weights.size == rnn.get_num_params_in_lstm(INPUTS, SIZE, 1, False)
        pieces = rnn.unpack_lstm_weights(weights, *sizes[:3], False)
        with jax.numpy_rank_promotion("allow"):
            return rnn.lstm_ref(x, h, c, *pieces, lengths, *sizes)

    layer = LSTM(INPUTS, SIZE, jnp.float32, reverse=reverse)
    params = random_params.parameters(layer, X, VALID)
    inputs = jax.tree.map(jnp.asarray, ({"params": params}, X, VALID, FIRST))
    run = lambda: layer.apply(*inputs)
    want = run()
    monkeypatch.setattr(rnn, "lstm", lstm)
    monkeypatch.setattr(recurrent, "platform", lambda: "gpu")
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), run(), want)
