"""LSTMs on a GPU, beside jax.experimental.rnn.lstm_ref (their equations: the oracles of
tests/attconv_jax/models, by loops, with gradients, in both directions)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import rnn

from common_jax import recurrent
from common_jax.recurrent import LSTM, State
from tests import random_params

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
