"""The comparison systems of pairs and reviews as plain loops in float64, for one example.

Written from the equations of the papers, not from the code under test, whose trees of parameters
they take. A function gets the tables' word vectors of each text, `tables[table][text]` [T, D], T at
least 1 and without padding, the parameters and the model's config.
"""

from typing import NamedTuple

import numpy as np

from attconv_jax.models.base import POOLED
from tests.attconv_jax.numpy_reference import leaky_relu
from tests.numpy_reference import affine, convolution, sigmoid, softmax


class Answer(NamedTuple):
    """Logits; the weights of each layer that attends, by text and context; further losses."""

    logits: np.ndarray
    layers: list
    losses: dict


def lstm(x, p, cell=None):
    """The state after each word, and the last cell; the forget gate's bias is 1 more than b's."""
    size = len(p["recurrent"])
    hidden, cell = np.zeros(size), np.zeros(size) if cell is None else cell
    states = []
    for word in x:
        i, f, g, o = np.split(word @ p["kernel"] + hidden @ p["recurrent"] + p["bias"], 4)
        cell = sigmoid(f + 1) * cell + sigmoid(i) * np.tanh(g)
        hidden = sigmoid(o) * np.tanh(cell)
        states.append(hidden)
    return np.array(states), cell


def relu_layers(x, p):
    for n in range(len(p)):
        x = np.maximum(affine(x, p[f"layer_{n}"]), 0)
    return x


def head(pooled, p):
    """The paper's, of two texts."""
    composed = np.concatenate([*pooled, pooled[0] * pooled[1]])
    first = leaky_relu(affine(composed, p["hidden_0"]))
    second = leaky_relu(affine(first, p["hidden_1"]))
    return affine(np.concatenate([composed, first, second]), p["output"])


def attend(energies, values):
    """sum_j softmax_j(e_ij) v_j for each row of energies, and the weights."""
    weights = np.array([softmax(np.array(row)) for row in energies])
    return weights @ values, weights


# Between two texts, word by word.


def decomposable(tables, p, config):
    """Parikh et al. 2016, Eq. 1-7, with an empty word of zeros before each text."""
    states = []
    for words in tables[0]:
        vectors = [np.zeros(words.shape[1])]
        for word in words:
            vectors.append(word / np.sqrt(word @ word) if config.unit_vectors else word)
        a = np.array(vectors) @ p["project"]["kernel"]
        states.append(with_own(a, p, config.most_distance) if config.intra else a)
    a, b = states
    F_a, F_b = (relu_layers(x, p["attend"]) for x in states)
    e = [[F_a[i] @ F_b[j] for j in range(len(b))] for i in range(len(a))]
    beta, to_b = attend(e, b)
    alpha, to_a = attend(np.transpose(e), a)
    sums = []
    for own, other in ((a, beta), (b, alpha)):
        pairs = zip(own, other, strict=True)
        sums.append(sum(relu_layers(np.concatenate(pair), p["compare"]) for pair in pairs))
    logits = affine(relu_layers(np.concatenate(sums), p["aggregate"]), p["output"])
    return Answer(logits, [{(0, 1): to_b[1:, 1:], (1, 0): to_a[1:, 1:]}], {})


def with_own(a, p, most):
    """[a; a'], a'_i = sum_j softmax_j(F'(a_i) . F'(a_j) + d) a_j with a d for each j - i."""
    f, d = relu_layers(a, p["attend_within"]), p["within"]["distance"]
    bias = lambda offset: d[most + offset] if abs(offset) <= most else d[2 * most + 1]
    energies = [[f[i] @ f[j] + bias(j - i) for j in range(len(a))] for i in range(len(a))]
    return np.concatenate([a, attend(energies, a)[0]], 1)


def word_by_word(tables, p, config):
    """Rocktaeschel et al. 2016, Eq. 11-14."""
    premise, hypothesis = (affine(words, p["project"]) for words in tables[0])
    Y, cell = lstm(premise, p["premise"])
    h, _ = lstm(hypothesis, p["hypothesis"], cell)
    r, rows = np.zeros(config.dim), []
    for t in range(len(h)):
        M = [np.tanh(y @ p["y"] + h[t] @ p["h"] + r @ p["r"]) for y in Y]
        alpha = softmax(np.array([p["w"] @ m for m in M]))
        r = sum(a * y for a, y in zip(alpha, Y, strict=True)) + np.tanh(r @ p["t"])
        rows.append(alpha)
    top = np.tanh(r @ p["p"] + h[-1] @ p["x"])
    return Answer(affine(top, p["output"]), [{(1, 0): np.array(rows)}], {})


def match_lstm(tables, p, config):
    """Wang & Jiang 2016, Eq. 6-9, with an empty word of zeros behind the premise."""
    H_s, H_t = (lstm(words, p["lstm"])[0] for words in tables[0])
    H_s = np.concatenate([H_s, np.zeros((1, config.dim))])
    m, cell, rows = np.zeros(config.dim), np.zeros(config.dim), []
    for h in H_t:
        scores = []
        for s in H_s:
            inside = affine(s, p["premise"]) + affine(h, p["hypothesis"])
            G = np.tanh(inside + m @ p["match"] + p["match_bias"])
            scores.append(p["weight"] @ G + p["weight_bias"])
        alpha = softmax(np.array(scores))
        a = sum(share * s for share, s in zip(alpha, H_s, strict=True))
        x = np.concatenate([a, h])
        # one step of an LSTM whose last hidden state was m
        own = p["match_lstm"]
        moved = {**own, "bias": own["bias"] + m @ own["recurrent"]}
        (m,), cell = lstm(x[None], moved, cell)
        rows.append(alpha[:-1])
    return Answer(affine(m, p["output"]), [{(1, 0): np.array(rows)}], {})


def bi_lstm(tables, p, config):
    """Bowman et al. 2015, section 3.3, with a tanh layer over the words."""
    last = [lstm(np.tanh(affine(words, p["project"])), p["lstm"])[0][-1] for words in tables[0]]
    x = np.concatenate(last)
    for n in range(3):
        x = np.tanh(affine(x, p[f"tanh_{n}"]))
    return Answer(affine(x, p["output"]), [], {})


# Convolutions of two texts.


def states_of(words, p, config):
    """The bi-CNN's."""
    for n in range(config.layers):
        words = np.tanh(config.tanh_gain * convolution(words, p[f"layers_{n}"]["convolution"]))
    return words


def attentive_pooling(tables, p, config):
    """Weighted means by the best match of each state in the other text."""
    h = [states_of(words, p, config) for words in tables[0]]
    left = h[0] @ p["energy"]["kernel"] if config.bilinear else h[0]
    squash = np.tanh if config.bilinear else lambda energy: energy
    A = np.array([[squash(x @ y) for y in h[1]] for x in left])
    best = [[max(A[i])] for i in range(len(A))], [[max(A[:, j])] for j in range(A.shape[1])]
    pooled, maps = [], {}
    for n, scores in enumerate(best):
        mean, weights = attend(np.transpose(scores), h[n])
        pooled.append(mean[0])
        maps[POOLED, n] = weights
    return Answer(head(pooled, p["head"]), [maps], {})


def abcnn(tables, p, config):
    """Yin et al. 2016, sections 3 and 4, the means of each level, of norm 1, beside its cosine."""
    states, width = tables[0], config.filter_width
    features, layers = level(*states), []
    for number in range(config.layers):
        A = matches(*states)
        channels = [[states[0]], [states[1]]]
        if config.input_attention:
            W = p[f"attention_{number}"]
            for own, a in zip(channels, (A, A.T), strict=True):
                most = min(a.shape[1], len(W))  # words beyond W's rows have none
                rows = [sum(a[i, j] * W[j] for j in range(most)) for i in range(len(a))]
                own.append(np.array(rows))
        wide = [wide_convolution(own, p[f"convolution_{number}"], width) for own in channels]
        if config.pooling_attention:
            B = matches(*wide)
            shares = B.sum(1), B.sum(0)
        else:
            shares = [np.full(len(x), 1 / width) for x in wide]
        states = [
            np.array([sum(share[k] * x[k] for k in range(t, t + width)) for t in range(len(old))])
            for share, x, old in zip(shares, wide, states, strict=True)
        ]
        features += level(*states)
        if config.input_attention:
            layers.append({(0, 1): A, (1, 0): A.T})
        elif config.pooling_attention:
            words = [  # the shares of the windows that have each word
                np.array([[sum(share[t : t + width]) for t in range(len(x))]])
                for share, x in zip(shares, states, strict=True)
            ]
            layers.append({(POOLED, n): words[n] for n in (0, 1)})
    return Answer(affine(np.concatenate(features), p["output"]), layers, {})


def level(x, y):
    x, y = x.mean(0), y.mean(0)
    x, y = x / np.sqrt(x @ x), y / np.sqrt(y @ y)
    return [x, y, [x @ y]]


def matches(x, y):
    return np.array([[1 / (1 + np.linalg.norm(one - other)) for other in y] for one in x])


def wide_convolution(channels, p, width):
    """Of windows that end with each word and of those that begin with one of the last: [T + w - 1,
    H]."""
    length, dim = channels[0].shape
    kernel = p["kernel"].reshape(len(channels), width, dim, -1)
    outputs = []
    for last in range(length + width - 1):
        total = p["bias"]
        for x, weights in zip(channels, kernel, strict=True):
            for place in range(width):
                at = last - (width - 1) + place
                if 0 <= at < length:
                    total = total + x[at] @ weights[place]
        outputs.append(np.tanh(total))
    return np.array(outputs)


# Pooling of one text, or of each of two.


def convolution_pooling(tables, p, config):
    """Kim 2014, section 2; Adel & Schuetze 2017 for weights in pooling."""
    pooled, maps = [], {}
    for n in range(len(tables[0])):
        states = []
        for width in map(int, config.widths.split(",")):
            own = p[f"convolution_{width}"]
            mute = {**own, "bias": 0 * own["bias"]}
            total = sum(convolution(table[n], mute) for table in tables)
            states.append(np.maximum(total + own["bias"], 0))
        h = np.concatenate(states, 1)
        if config.pooling == "max":
            pooled.append(h.max(0))
            continue
        own = p["attention"]
        scores = [own["weight"] @ np.tanh(x @ own["in"]["kernel"]) for x in h]
        mean, maps[POOLED, n] = attend([scores], h)
        pooled.append(mean[0])
    joined = np.concatenate(pooled)
    joined = relu_layers(joined, p["hidden"]) if config.hidden else joined
    return Answer(affine(joined, p["output"]), [maps] if maps else [], {})


def recurrent_pooling(tables, p, config):
    """Lin et al. 2017, Eq. 1-8, for two texts their appendix A."""
    pooled, maps, penalty = [], {}, 0.0
    for n, words in enumerate(tables[0]):
        forward, _ = lstm(words, p["lstm"]["forward"])
        backward, _ = lstm(words[::-1], p["lstm"]["backward"])
        H = np.concatenate([forward, backward[::-1]], 1)
        if config.pooling == "max":
            pooled.append(H.max(0))
            continue
        own = p["attention"]
        scores = np.array([np.tanh(h @ own["in"]["kernel"]) @ own["out"]["kernel"] for h in H])
        M, A = attend(scores.T, H)
        pooled.append(M)
        maps[POOLED, n] = A
        for i in range(len(A)):
            for j in range(len(A)):
                penalty += config.penalty * (A[i] @ A[j] - (i == j)) ** 2
    if config.pooling == "attention" and len(pooled) == 2:
        sides = [
            np.array([row @ own for row, own in zip(M, p[name]["kernel"], strict=True)])
            for name, M in zip(("first", "second"), pooled, strict=True)
        ]
        pooled = [sides[0] * sides[1]]
    joined = np.concatenate([each.ravel() for each in pooled])
    logits = affine(relu_layers(joined, p["hidden"]), p["output"])
    return Answer(logits, [maps], {"penalty": penalty}) if maps else Answer(logits, [], {})
