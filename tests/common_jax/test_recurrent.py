"""Recurrent layers against jax.experimental.rnn.lstm_ref, NumPy loops and each text alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import rnn

from common_jax import recurrent
from common_jax.recurrent import GRU, LSTM, Bidirectional, State, flipped
from tests import random_params
from tests.gradcheck import assert_slopes
from tests.numpy_reference import sigmoid

INPUTS, SIZE, LENGTHS = 3, 2, [5, 1, 3, 0]
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 5, INPUTS)).astype(np.float32)
VALID = np.arange(5)[None] < np.array(LENGTHS)[:, None]
FIRST = State(*RANDOM.standard_normal((2, 4, SIZE)).astype(np.float32))


def by_hand(kind, params, x, hidden, cell):
    """The states after each word of one text, float64."""
    kernel, bias, recurrent = (params[name] for name in ("kernel", "bias", "recurrent"))
    states = []
    for word in x:
        a, b = word @ kernel + bias, hidden @ recurrent
        if kind is LSTM:
            i, f, g, o = np.split(a + b, 4)
            cell = sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(g)
            hidden = sigmoid(o) * np.tanh(cell)
        else:
            (r, z, n), (s, y, m) = np.split(a, 3), np.split(b, 3)
            u = sigmoid(z + y)
            hidden = cell = (1 - u) * np.tanh(n + sigmoid(r + s) * m) + u * hidden
        states.append(hidden)
    return np.array(states).reshape(len(x), SIZE), hidden, cell


def params_of(layer):
    return jax.tree.map(jnp.asarray, random_params.parameters(layer, X, VALID))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_states_are_those_of_each_text_alone(kind, reverse):
    layer = kind(INPUTS, SIZE, jnp.float32, reverse=reverse)
    params = params_of(layer)
    run = jax.jit(lambda p, x, first: layer.apply({"params": p}, x, jnp.asarray(VALID), first))
    garbage = np.where(VALID[..., None], X, 1e6)
    hidden, last = run(params, jnp.asarray(garbage), State(*map(jnp.asarray, FIRST)))
    exact = random_params.exact(params)
    for row, length in enumerate(LENGTHS):
        words = X[row, :length][:: -1 if reverse else 1]
        states, *ends = by_hand(kind, exact, words, *(s[row].astype(np.float64) for s in FIRST))
        np.testing.assert_allclose(hidden[row, :length], states[:: -1 if reverse else 1], atol=1e-5)
        assert not np.asarray(hidden[row, length:]).any()
        for actual, expected in zip(last, ends, strict=True):
            np.testing.assert_allclose(actual[row], expected, atol=1e-5)

    weights = RANDOM.standard_normal(hidden.shape)

    def total(inputs):
        p, x = inputs
        sums = 0.0
        for row, length in enumerate(LENGTHS):
            words = x[row, :length][:: -1 if reverse else 1]
            states = by_hand(kind, p, words, *(s[row].astype(np.float64) for s in FIRST))[0]
            sums += (states[:: -1 if reverse else 1] * weights[row, :length]).sum()
        return sums

    sums = lambda p, x: (run(p, x, FIRST)[0] * weights.astype(np.float32)).sum()
    gradients = jax.jit(jax.grad(sums, argnums=(0, 1)))(params, jnp.asarray(X))
    assert_slopes(total, (exact, X.astype(np.float64)), gradients)


@pytest.mark.parametrize("reverse", [False, True])
def test_an_lstm_is_that_of_cudnns_reference(reverse):
    """With the parameters and the order of words that are passed to cuDNN."""
    layer = LSTM(INPUTS, SIZE, jnp.float32, reverse=reverse)
    params = params_of(layer)
    lengths = jnp.array([5, 1, 3, 2], jnp.int32)
    valid = jnp.arange(5)[None] < lengths[:, None]
    packed = layer.apply({"params": params}, method="cudnn_weights")
    assert packed.size == rnn.get_num_params_in_lstm(INPUTS, SIZE, 1, False)
    x = flipped(jnp.asarray(X), lengths) if reverse else jnp.asarray(X)
    states = [jnp.asarray(state)[None] for state in FIRST]
    pieces = rnn.unpack_lstm_weights(packed, INPUTS, SIZE, 1, False)
    with jax.numpy_rank_promotion("allow"):
        want, *ends = rnn.lstm_ref(x, *states, *pieces, lengths, INPUTS, SIZE, 1, 0.0, False)
    want = flipped(want, lengths) if reverse else want
    first = State(*map(jnp.asarray, FIRST))
    run = jax.jit(lambda x, valid, first: layer.apply({"params": params}, x, valid, first))
    hidden, last = run(jnp.asarray(X), valid, first)
    np.testing.assert_allclose(hidden, np.where(valid[..., None], want, 0), atol=1e-6)
    for actual, expected in zip(last, ends, strict=True):
        np.testing.assert_allclose(actual, expected[0], atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_texts_are_passed_to_cudnn_and_back(monkeypatch, reverse):
    """With the reference in the place of cuDNN; texts of all lengths, an empty one too."""

    def lstm(x, h, c, weights, lengths, *sizes):
        pieces = rnn.unpack_lstm_weights(weights, *sizes[:3], False)
        with jax.numpy_rank_promotion("allow"):
            return rnn.lstm_ref(x, h, c, *pieces, lengths, *sizes)

    layer, first = LSTM(INPUTS, SIZE, jnp.float32, reverse=reverse), State(*map(jnp.asarray, FIRST))
    params = params_of(layer)
    run = lambda: layer.apply({"params": params}, jnp.asarray(X), jnp.asarray(VALID), first)
    want = run()
    monkeypatch.setattr(rnn, "lstm", lstm)
    monkeypatch.setattr(recurrent, "platform", lambda: "gpu")
    got = run()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), got, want)


def test_both_directions():
    layer = Bidirectional(LSTM, INPUTS, SIZE, jnp.float32)
    params = params_of(layer)
    states, last = layer.apply({"params": params}, jnp.asarray(X), jnp.asarray(VALID))
    for name, half, end in (("forward", slice(0, SIZE), 2), ("backward", slice(SIZE, None), 0)):
        one = LSTM(INPUTS, SIZE, jnp.float32, reverse=name == "backward")
        alone, state = one.apply({"params": params[name]}, jnp.asarray(X), jnp.asarray(VALID))
        np.testing.assert_allclose(states[..., half], alone, atol=1e-6)
        np.testing.assert_allclose(last[:, half], state.hidden, atol=1e-6)
        np.testing.assert_allclose(last[2, half], states[2, end, half], atol=1e-6)  # of 3 words


@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_a_reversed_text_and_exchanged_directions_give_the_reversed_states(kind):
    layer = Bidirectional(kind, INPUTS, SIZE, jnp.float32)
    params, every = params_of(layer), jnp.ones_like(VALID)
    exchanged = {"forward": params["backward"], "backward": params["forward"]}
    states, last = layer.apply({"params": params}, jnp.asarray(X), every)
    back, back_last = layer.apply({"params": exchanged}, jnp.asarray(X[:, ::-1]), every)
    halves = np.split(np.asarray(back[:, ::-1]), 2, axis=-1)
    np.testing.assert_allclose(states, np.concatenate(halves[::-1], axis=-1), atol=1e-6)
    np.testing.assert_allclose(last, np.roll(back_last, SIZE, axis=-1), atol=1e-6)


def test_states_without_recurrent_weights_depend_on_the_words_alone():
    """With a forget gate that is closed too."""
    layer = LSTM(INPUTS, SIZE, jnp.float32)
    params = params_of(layer)
    closed = params["bias"].at[SIZE : 2 * SIZE].set(-100)
    params |= {"recurrent": jnp.zeros_like(params["recurrent"]), "bias": closed}
    params["kernel"] = params["kernel"].at[:, SIZE : 2 * SIZE].set(0)
    texts = jnp.asarray(X.reshape(-1, 1, INPUTS))
    alone, _ = layer.apply({"params": params}, texts, jnp.ones((len(texts), 1), bool))
    together, _ = layer.apply({"params": params}, jnp.asarray(X), jnp.ones_like(VALID))
    np.testing.assert_allclose(together, alone.reshape(together.shape), atol=1e-6)
