"""Recurrent layers against NumPy loops, each text alone, and jax.experimental.rnn.lstm_ref."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import rnn

from common_jax import recurrent
from common_jax.recurrent import GRU, LSTM, Bidirectional, State
from tests import random_params
from tests.gradcheck import assert_equals
from tests.numpy_reference import gru_step, lstm_step

INPUTS, SIZE, LENGTHS = 3, 2, [5, 1, 3, 0]
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((4, 5, INPUTS)).astype(np.float32)
VALID = np.arange(5)[None] < np.array(LENGTHS)[:, None]
FIRST = State(*RANDOM.standard_normal((2, 4, SIZE)).astype(np.float32))
each_kind = pytest.mark.parametrize("kind", [LSTM, GRU])
each_direction = pytest.mark.parametrize("reverse", [False, True])


def by_hand(kind, params, x, hidden, cell):
    """The states after each word of one text, float64."""
    states = []
    for word in x:
        if kind is LSTM:
            hidden, cell = lstm_step(word, hidden, cell, params)
        else:
            hidden = cell = gru_step(word, hidden, params)
        states.append(hidden)
    return np.array(states).reshape(len(x), SIZE), hidden, cell


def params_of(layer):
    return jax.tree.map(jnp.asarray, random_params.parameters(layer, X, VALID))


def run(layer, params, x=X, valid=VALID, first=None):
    initial = () if first is None else (State(*map(jnp.asarray, first)),)
    return layer.apply({"params": params}, jnp.asarray(x), jnp.asarray(valid), *initial)


@each_direction
@each_kind
def test_states_are_those_of_each_text_alone(kind, reverse):
    layer = kind(INPUTS, SIZE, jnp.float32, reverse=reverse)
    params = params_of(layer)
    order = slice(None, None, -1 if reverse else 1)

    def of_texts(params, x):
        """The states, zero behind each text, and the last one of each."""
        out = np.zeros((*VALID.shape, SIZE))
        ends = []
        for row, length in enumerate(LENGTHS):
            first = (state[row].astype(np.float64) for state in FIRST)
            states, *end = by_hand(kind, params, x[row, :length][order], *first)
            out[row, :length] = states[order]
            ends.append(end)
        return out, np.array(ends)

    garbage = np.where(VALID[..., None], X, 1e6)
    hidden, last = jax.jit(lambda p, x: run(layer, p, x, first=FIRST))(params, garbage)
    states, ends = of_texts(random_params.exact(params), X)
    np.testing.assert_allclose(hidden, states, atol=1e-5)
    assert not np.asarray(hidden)[~VALID].any()
    for number, end in enumerate(last):
        np.testing.assert_allclose(end, ends[:, number], atol=1e-5)
    states_of = lambda p, x: run(layer, p, x, first=FIRST)[0]
    assert_equals(states_of, lambda p, x: of_texts(p, x)[0], params, X)


@each_direction
def test_texts_are_passed_to_cudnn_and_back(monkeypatch, reverse):
    """With cuDNN's reference in its place; texts of all lengths, an empty one too."""

    def lstm(x, h, c, weights, lengths, *sizes):
        assert weights.size == rnn.get_num_params_in_lstm(INPUTS, SIZE, 1, False)
        pieces = rnn.unpack_lstm_weights(weights, *sizes[:3], False)
        with jax.numpy_rank_promotion("allow"):
            return rnn.lstm_ref(x, h, c, *pieces, lengths, *sizes)

    layer = LSTM(INPUTS, SIZE, jnp.float32, reverse=reverse)
    params = params_of(layer)
    want = run(layer, params, first=FIRST)
    monkeypatch.setattr(rnn, "lstm", lstm)
    monkeypatch.setattr(recurrent, "platform", lambda: "gpu")
    got = run(layer, params, first=FIRST)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), got, want)


@each_kind
def test_both_directions(kind):
    layer = Bidirectional(kind, INPUTS, SIZE, jnp.float32)
    params = params_of(layer)
    states, last = run(layer, params)
    for name, half, end in (("forward", slice(0, SIZE), 2), ("backward", slice(SIZE, None), 0)):
        one = kind(INPUTS, SIZE, jnp.float32, reverse=name == "backward")
        alone, state = run(one, params[name])
        np.testing.assert_allclose(states[..., half], alone, atol=1e-6)
        np.testing.assert_allclose(last[:, half], state.hidden, atol=1e-6)
        np.testing.assert_allclose(last[2, half], states[2, end, half], atol=1e-6)  # of 3 words


def test_states_without_recurrent_weights_depend_on_the_words_alone():
    """With a forget gate that is closed too."""
    layer = LSTM(INPUTS, SIZE, jnp.float32)
    params = params_of(layer)
    closed = params["bias"].at[SIZE : 2 * SIZE].set(-100)
    params |= {"recurrent": jnp.zeros_like(params["recurrent"]), "bias": closed}
    params["kernel"] = params["kernel"].at[:, SIZE : 2 * SIZE].set(0)
    alone, _ = run(layer, params, X.reshape(-1, 1, INPUTS), np.ones((VALID.size, 1), bool))
    together, _ = run(layer, params, X, np.ones_like(VALID))
    np.testing.assert_allclose(together, alone.reshape(together.shape), atol=1e-6)
