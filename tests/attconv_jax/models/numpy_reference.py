"""The comparison systems of pairs and reviews as plain loops in float64, for one example.

Written from the equations of the papers, not from the code under test, whose parameter trees they
read. A function gets each text's word vectors from each table, `tables[table][text]` [T, D], with T
at least 1 and without padding, the parameters and the model's config; for models that read more
than vectors, also the `Written` texts.
"""

import zlib
from typing import NamedTuple

import numpy as np
from scipy.special import expit as sigmoid
from scipy.special import softmax

from attconv_jax.models.base import POOLED
from tests.attconv_jax.numpy_reference import leaky_relu
from tests.numpy_reference import affine, both_directions, convolution, gru, lstm, lstm_step


class Answer(NamedTuple):
    """Logits; the attention weights of each layer, by text and context; further losses."""

    logits: np.ndarray
    layers: list
    losses: dict


class Written(NamedTuple):
    """The words of a text, and its binary parse, with brackets and words separated by spaces."""

    words: list
    parse: str


def relu_layers(x, p):
    for n in range(len(p)):
        x = np.maximum(affine(x, p[f"layer_{n}"]), 0)
    return x


def head(pooled, p):
    """The paper's head for two texts."""
    composed = np.concatenate([*pooled, pooled[0] * pooled[1]])
    first = leaky_relu(affine(composed, p["hidden_0"]))
    second = leaky_relu(affine(first, p["hidden_1"]))
    return affine(np.concatenate([composed, first, second]), p["output"])


def attend(energies, values):
    """sum_j softmax_j(e_ij) v_j for each row of energies, and the weights."""
    weights = np.array([softmax(np.array(row)) for row in energies])
    return weights @ values, weights


# Attention between two texts, word by word.


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
        m, cell = lstm_step(np.concatenate([a, h]), m, cell, p["match_lstm"])
        rows.append(alpha[:-1])
    return Answer(affine(m, p["output"]), [{(1, 0): np.array(rows)}], {})


def bi_lstm(tables, p, config):
    """Bowman et al. 2015, section 3.3, with a tanh layer over the words."""
    last = [lstm(np.tanh(affine(words, p["project"])), p["lstm"])[0][-1] for words in tables[0]]
    x = np.concatenate(last)
    for n in range(3):
        x = np.tanh(affine(x, p[f"tanh_{n}"]))
    return Answer(affine(x, p["output"]), [], {})


# Memories of each text.


def nse(tables, p, config):
    """Munkhdalai & Yu 2017, Eq. 1-6, with a memory for each text."""
    last, maps = [], {}
    for n, M in enumerate(tables[0]):
        opened, _ = lstm(M, p["read"])
        h = c = np.zeros(M.shape[1])
        rows = []
        for o in opened:
            z = softmax(np.array([row @ o for row in M]))
            m = sum(share * row for share, row in zip(z, M, strict=True))
            composed = np.concatenate([o, m]) @ p["compose"] + p["compose_bias"]
            h, c = lstm_step(composed, h, c, p["write"])
            M = np.array([(1 - share) * row + share * h for share, row in zip(z, M, strict=True)])
            rows.append(z)
        last.append(h)
        maps[n, n] = np.array(rows)
    return Answer(of_differences(*last, p), [maps], {})


def of_differences(u, v, p):
    """[u; v; u - v; u * v] through ReLU layers, as in Mou et al. 2016."""
    joined = np.concatenate([u, v, u - v, u * v])
    return affine(relu_layers(joined, p["hidden"]), p["output"])


def lstmn(tables, p, config):
    """Cheng et al. 2016, Eq. 5-14, with deep fusion of the first text into the second."""
    first, own, _ = tape(tables[0][0], p["first"])
    second, others, fused = tape(tables[0][1], p["second"], first)
    means = np.concatenate([hidden.mean(0) for hidden, _ in (first, second)])
    logits = affine(relu_layers(means, p["hidden"]), p["output"])
    return Answer(logits, [{(0, 0): own, (1, 1): others, (1, 0): fused}], {})


def tape(words, p, source=None):
    """Hidden states and cells; the weights of the words before each; the weights of the other
    text."""
    size = len(p["lstm"]["recurrent"])
    hidden, cells = np.zeros((2, 0, size))
    past, other = np.zeros((2, size))  # sums of states
    own, fused = np.zeros((len(words), len(words))), []
    for t, x in enumerate(words):
        weights = additive(hidden, x, past, p, "own")
        past, added = weights @ hidden, 0.0
        if source is not None:
            shares = additive(source[0], x, other, p, "other")
            other = shares @ source[0]
            r = sigmoid(np.concatenate([x, other]) @ p["gate"] + p["gate_bias"])
            added = r * (shares @ source[1])
            fused.append(shares)
        h, c = lstm_step(x, past, weights @ cells, p["lstm"], added)
        hidden, cells = np.concatenate([hidden, [h]]), np.concatenate([cells, [c]])
        own[t, :t] = weights
    return (hidden, cells), own, np.array(fused)


def additive(states, x, summary, p, name):
    """softmax(v . tanh(W_h h_i + W_x x + W_s s)); empty without states."""
    state, word, of_summary = (p[f"{name}_{of}"] for of in ("state", "word", "summary"))
    inside = [h @ state + x @ word + summary @ of_summary for h in states]
    scores = np.array([p[f"{name}_weight"] @ np.tanh(one) for one in inside])
    return softmax(scores) if len(scores) else scores


# Convolutions of two texts.


def states_of(words, p, config):
    """The states of the bi-CNN."""
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
    """Yin et al. 2016, sections 3 and 4; the features are each level's means, scaled to norm 1, and
    their cosine."""
    states, width = tables[0], config.filter_width
    features, layers = level(*states), []
    for number in range(config.layers):
        A = matches(*states)
        channels = [[states[0]], [states[1]]]
        if config.input_attention:
            W = p[f"attention_{number}"]
            for own, a in zip(channels, (A, A.T), strict=True):
                most = min(a.shape[1], len(W))  # words beyond W's rows have none
                own.append(a[:, :most] @ W[:most])
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
            words = [  # each word's weight: the sum of those of its windows
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
    """A convolution over windows that end with each word or start with one of the last: [T + w - 1,
    H]."""
    length, dim = channels[0].shape
    kernel = p["kernel"].reshape(len(channels), width, dim, -1)
    total = p["bias"]
    for x, weights in zip(channels, kernel, strict=True):
        padded = np.pad(x, ((width - 1, width - 1), (0, 0)))
        for place in range(width):
            total = total + padded[place : place + length + width - 1] @ weights[place]
    return np.tanh(total)


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
        H = both_directions(words, p["lstm"], lambda x, own: lstm(x, own)[0])
        if config.pooling == "max":
            pooled.append(H.max(0))
            continue
        own = p["attention"]
        scores = np.array([np.tanh(h @ own["in"]["kernel"]) @ own["out"]["kernel"] for h in H])
        M, A = attend(scores.T, H)
        pooled.append(M)
        maps[POOLED, n] = A
        penalty += config.penalty * ((A @ A.T - np.eye(len(A))) ** 2).sum()
    if config.pooling == "attention" and len(pooled) == 2:
        kernels = (p[name]["kernel"] for name in ("first", "second"))
        sides = [np.einsum("rd,rdf->rf", *pair) for pair in zip(pooled, kernels, strict=True)]
        pooled = [sides[0] * sides[1]]
    joined = np.concatenate([each.ravel() for each in pooled])
    logits = affine(relu_layers(joined, p["hidden"]), p["output"])
    return Answer(logits, [maps], {"penalty": penalty}) if maps else Answer(logits, [], {})


# By words and parses.


def tree_cnn(tables, p, config, texts):
    """Mou et al. 2016, with binary trees."""
    u, v = (
        tree_features(affine(words, p["project"]), text.parse, p["tree"])
        for words, text in zip(tables[0], texts, strict=True)
    )
    return Answer(of_differences(u, v, p), [], {})


def tree_features(words, parse, p):
    """The maxima over the nodes of the tree."""
    tokens, leaves, windows = iter(parse.split()), iter(words), []

    def read():
        """The state of a node, in order; a word's children are zeros in its window."""
        left = right = np.zeros(words.shape[1])
        if next(tokens) == "(":
            left, right = read(), read()
            assert next(tokens) == ")"
            own = np.tanh(left @ p["left"] + right @ p["right"] + p["bias"])
        else:
            own = next(leaves)
        children = left @ p["window_left"] + right @ p["window_right"]
        windows.append(np.tanh(own @ p["window_parent"] + children + p["window_bias"]))
        return own

    read()
    assert len(windows) == 2 * len(words) - 1
    return np.max(windows, axis=0)


def cdssm(tables, p, config, texts):
    """Shen et al. 2014, section 3: words are vectors of counts, in windows of three."""
    W = np.concatenate([*np.swapaxes(p["trigram_embedding"], 0, 1)])
    semantic = []
    for words, _ in texts:
        outside = np.zeros(config.trigram_rows + 1)
        counts = [outside, *(trigrams(word, config.trigram_rows) for word in words), outside]
        windows = [np.concatenate(counts[t : t + 3]) for t in range(len(words))]
        h = np.array([np.tanh(window @ W + p["bias"]) for window in windows])
        semantic.append(np.tanh(affine(h.max(0), p["semantic"])))
    u, v = semantic
    cosine = u @ v / np.sqrt((u @ u) * (v @ v))
    return Answer(np.array([0, p["factor"] * cosine]), [], {})


def trigrams(word, rows, most=16):
    """The counts of each row's letter trigrams among the first of "#word#"; row 0 has none."""
    counts, marked = np.zeros(rows + 1), f"#{word}#"
    for start in range(min(len(word), most)):
        counts[1 + zlib.crc32(marked[start : start + 3].encode()) % rows] += 1
    return counts


def bi_gru(tables, p, config, texts):
    """The last GRU states of each text in both directions, and the number of common words."""
    last = []
    for name, words in zip(("first", "second"), tables[0], strict=True):
        forward = gru(words, p[name]["forward"])[-1]
        backward = gru(words[::-1], p[name]["backward"])[-1]
        last.append(np.concatenate([forward, backward]))
    q, a = last
    both, _, _ = distinct_words(*(words for words, _ in texts))
    shared = p["shared"][min(both, config.most_shared)]
    hidden = np.tanh(affine(np.concatenate([q, a, q * a, shared]), p["hidden"]))
    return Answer(affine(hidden, p["output"]), [], {})


def distinct_words(first, second):
    """The numbers of distinct words in both texts, in the first and in the second."""
    first, second = {*first}, {*second}
    return len(first & second), len(first), len(second)


def word_count(tables, p, config, texts):
    """WordC1 is |q & s| / |s|, WordC2 |q & s| / |q|."""
    both, first, second = distinct_words(*(words for words, _ in texts))
    return Answer(np.array([0, both / (second if config.share_of == "second" else first)]), [], {})


# A question and a sentence.


def sentence_rank(tables, p, config):
    """Wang et al. 2017, Eq. 1-6, with products of ReLU projections as energies."""
    question, sentence = (both_directions(words, p["encode"]) for words in tables[0])
    x, to_question = match(sentence, question, p["match"])
    v = both_directions(x, p["matched"])
    x, to_itself = match(v, v, p["self_match"])
    h = both_directions(x, p["self_matched"])
    own = p["question"]
    scores = [own["weight"] @ np.tanh(u @ own["in"]["kernel"]) for u in question]
    (mean,), weights = attend([scores], question)
    layers = [{(1, 0): to_question}, {(1, 1): to_itself}, {(POOLED, 0): weights}]
    return Answer(head([mean, h.max(0)], p["head"]), layers, {})


def match(states, context, p):
    """g * [u; c] with c the context of u, and the weights."""
    query, key = (
        np.maximum(x @ p[name]["kernel"], 0) for name, x in (("query", states), ("key", context))
    )
    scale = np.sqrt(query.shape[1])
    contexts, weights = attend([[q @ k / scale for k in key] for q in query], context)
    joined = np.concatenate([states, contexts], 1)
    return sigmoid(joined @ p["gate"]["kernel"]) * joined, weights
