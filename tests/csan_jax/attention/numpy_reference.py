"""The comparison systems of CSAN's Table 1 as plain loops in float64, for one sentence [I, D].

Written from the equations of the papers, not from the code under test, whose parameter trees they
read. Each returns the output [I, D] and the attention weights [H, I, I], or None without attention.
"""

import numpy as np
from scipy.special import expit as sigmoid
from scipy.special import softmax

from tests.numpy_reference import affine, convolution, layer_norm, separable_convolution


def project(x, p, name, heads):
    """A linear map into heads, [I, H, K]."""
    return affine(x, p[name]).reshape(len(x), heads, -1)


def attend(
    query,
    key,
    value,
    *,
    bias=lambda i, j, h: 0.0,
    seen=lambda i, j, h: True,
    factor=lambda i, j, h: 1.0,
    to_key=lambda i, j: 0.0,
    to_value=lambda i, j: 0.0,
):
    """The weights softmax_j(q_i . key_j / sqrt(K) + bias) over the seen j, times a factor, [H, I,
    J], and the weighted sums of the values, [I, H, K].

    Args:
      bias, seen, factor: functions of i, j and the head.
      to_key, to_value: added to key j and value j for query i, in all heads.
    """
    length, heads, size = query.shape
    out, weights = np.zeros_like(query), np.zeros((heads, length, len(key)))
    for h in range(heads):
        for i in range(length):
            area = [j for j in range(len(key)) if seen(i, j, h)]
            scores = [
                query[i, h] @ (key[j, h] + to_key(i, j)) / np.sqrt(size) + bias(i, j, h)
                for j in area
            ]
            for j, weight in zip(area, softmax(np.array(scores)), strict=True):
                weights[h, i, j] = weight * factor(i, j, h)
                out[i, h] += weights[h, i, j] * (value[j, h] + to_value(i, j))
    return out, weights


def layer(x, p, heads, **terms):
    """Vaswani et al. 2017, section 3.2, with further terms."""
    query, key, value = (project(x, p, name, heads) for name in ("query", "key", "value"))
    out, weights = attend(query, key, value, **terms)
    return affine(out.reshape(x.shape), p["out"]), weights


def plain(x, p, heads):
    return layer(x, p, heads)


def direction(x, p, heads):
    """Even heads attend to j <= i, odd heads to j >= i."""
    return layer(x, p, heads, seen=lambda i, j, h: j <= i if h % 2 == 0 else j >= i)


def neighbor(x, p, heads):
    """-(i - j)^2 / (2 sigma_h^2)."""
    sigma = np.maximum(np.exp(p["log_sigma"]), 0.1)
    return layer(x, p, heads, bias=lambda i, j, h: -((i - j) ** 2) / (2 * sigma[h] ** 2))


def localness(x, p, heads, *, local_heads, centre, window, width, form):
    """Yang et al. 2018, Eq. 4-9, or Luong et al. 2015, section 3.2, local-p."""
    query = affine(x, p["query"])
    P, D = centres_and_windows(query, p, local_heads, centre, window, width)

    def gaussian(i, j, h):
        return -2 * (j - P[i, h]) ** 2 / D[i, h] ** 2 if h < local_heads else 0.0

    if form == "additive":
        return layer(x, p, heads, bias=gaussian)
    near = lambda i, j, h: h >= local_heads or abs(j - P[i, h]) <= D[i, h]
    return layer(x, p, heads, seen=near, factor=lambda i, j, h: np.exp(gaussian(i, j, h)))


def centres_and_windows(query, p, local_heads, centre, window, width):
    """P and D of each word and local head, [I, h], from the queries [I, D] before the split."""
    length = len(query)
    P, D = np.zeros((2, length, local_heads))
    for i in range(length):
        P[i], D[i] = i, width
        if "predicted" in (centre, window):
            t = np.tanh(affine(query[i], p["prediction"]))
        if centre == "predicted":
            P[i] = (length - 1) * sigmoid(affine(t, p["centre"]))
        if window == "predicted":
            D[i] = length * sigmoid(affine(t, p["window"])) + 0.1
    return P, D


def relative(x, p, heads, *, distance):
    """Shaw et al. 2018, Eq. 3-5: row r + k of a table is the offset r = clip(j - i, -k, k)."""
    row = lambda i, j: min(max(j - i, -distance), distance) + distance
    return layer(
        x,
        p,
        heads,
        to_key=lambda i, j: p["relative_keys"][row(i, j)],
        to_value=lambda i, j: p["relative_values"][row(i, j)],
    )


def convolutions(x, p, heads, *, count, width, kind, norm):
    """x + relu(convolution(norm(x))), `count` times; with "post" the norm is applied after the
    sum."""
    convolve = {"separable": separable_convolution, "ordinary": convolution}[kind]
    for n in range(count):
        own, scales = p[f"convolution_{n}"], p[f"norm_{n}"]
        y = convolve(layer_norm(x, scales) if norm == "pre" else x, own)
        x = x + np.maximum(y, 0)
        x = layer_norm(x, scales) if norm == "post" else x
    return x, None


def block(x, p, heads, *, block):
    """Attention inside blocks of r words, and between the blocks' sums v."""
    length, dim = x.shape
    query, key, value = (project(x, p, name, heads) for name in ("query", "key", "value"))
    blocks = [range(n, min(n + block, length)) for n in range(0, length, block)]
    words, weights = np.zeros_like(query), np.zeros((heads, length, length))
    v = np.zeros((len(blocks), *query.shape[1:]))
    for b, own in enumerate(blocks):
        words[own], inside = attend(query[own], key[own], value[own])
        weights[:, own.start : own.stop, own.start : own.stop] = inside
        logits = np.zeros((len(own), heads))
        for place, i in enumerate(own):
            hidden = sigmoid(affine(words[i].reshape(dim), p["pool_hidden"]))
            logits[place] = affine(hidden, p["pool"])
        for h in range(heads):
            v[b, h] = softmax(logits[:, h]) @ words[own, h]
    e = between_blocks(v, p, heads)
    joined = np.zeros((length, heads, 2 * dim // heads))
    for b, own in enumerate(blocks):
        for i in own:
            for h in range(heads):
                joined[i, h] = np.concatenate([words[i, h], e[b, h]])
    return affine(joined.reshape(length, 2 * dim), p["out"]), weights


def between_blocks(v, p, heads):
    """e = G o + (1 - G) v, G = sigmoid(W_G [v; o]); o is the attention of the blocks [N, H, K]."""
    flat = v.reshape(len(v), -1)
    o, _ = attend(project(flat, p, "block_query", heads), v, v)
    gate = sigmoid(affine(np.concatenate([flat, o.reshape(flat.shape)], 1), p["gate"]))
    gate = gate.reshape(v.shape)
    return gate * o + (1 - gate) * v
