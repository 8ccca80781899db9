"""NumPy references of the common layers, for one text [T, D] without padding, or one vector."""

import numpy as np
from scipy.special import expit as sigmoid


def windows(x, width):
    """[T, W * D]: each state with its neighbours; zeros beyond both ends."""
    padded = np.pad(x, ((width // 2, width // 2), (0, 0)))
    rows = [padded[t : t + width].ravel() for t in range(len(x))]
    return np.array(rows).reshape(len(x), width * x.shape[1])


def convolution(x, p):
    """[T, D] -> [T, F]."""
    kernel = p["kernel"]
    return windows(x, len(kernel)) @ kernel.reshape(-1, kernel.shape[-1]) + p["bias"]


def separable_convolution(x, p):
    """Depthwise, then pointwise convolution: [T, D] -> [T, F]."""
    width, dim = p["depthwise_kernel"].shape
    windowed = windows(x, width).reshape(len(x), width, dim)
    return affine((windowed * p["depthwise_kernel"]).sum(axis=1), p["pointwise"])


def affine(x, p):
    return x @ p["kernel"] + p["bias"]


def layer_norm(x, p):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * p["scale"] + p["bias"]


def lstm(x, p, cell=None):
    """The state after each word, and the last cell."""
    size = len(p["recurrent"])
    hidden, cell = np.zeros(size), np.zeros(size) if cell is None else cell
    states = []
    for word in x:
        hidden, cell = lstm_step(word, hidden, cell, p)
        states.append(hidden)
    return np.array(states), cell


def lstm_step(word, hidden, cell, p, added=0.0):
    """The next state and cell; the forget gate's bias is 1 more than b's, and `added` is a further
    term of the cell."""
    i, f, g, o = np.split(affine(word, p) + hidden @ p["recurrent"], 4)
    cell = sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(g) + added
    return sigmoid(o) * np.tanh(cell), cell


def gru(x, p):
    """The state after each word; the reset gate is applied to the product with the state."""
    state, states = np.zeros(len(p["recurrent"])), []
    for word in x:
        state = gru_step(word, state, p)
        states.append(state)
    return np.array(states)


def gru_step(word, state, p):
    (r, z, n), (s, y, m) = np.split(affine(word, p), 3), np.split(state @ p["recurrent"], 3)
    u = sigmoid(z + y)
    return (1 - u) * np.tanh(n + sigmoid(r + s) * m) + u * state


def both_directions(x, p, layer=gru):
    """[T, 2 H]: the states of the forward and of the backward pass at each word."""
    forward, backward = layer(x, p["forward"]), layer(x[::-1], p["backward"])
    return np.concatenate([forward, backward[::-1]], 1)
