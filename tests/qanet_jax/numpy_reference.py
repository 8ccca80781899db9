"""QANet (Yu et al. 2018, section 2.2) as plain NumPy in float64, for one text without padding.

Written from the paper, not from the code under test, whose parameter trees it reads.
"""

import numpy as np
from scipy.special import expit as sigmoid
from scipy.special import softmax

from tests.numpy_reference import affine, convolution, layer_norm, separable_convolution


def model(context, question, p, config):
    """Logits of the first and the last word; a text is (ids, characters, vectors or None)."""
    c, q = (
        encoder(
            affine(embedding(*text, p["embedding"], config), p["embedding_projection"]),
            p["embedding_encoder"],
            config,
            config.embedding_blocks,
            config.embedding_convs,
        )
        for text in (context, question)
    )
    x = context_query(c, q, p["context_query_attention"]["similarity"])
    x = affine(x, p["context_query_projection"])
    outputs = []
    for _ in range(config.encoder_passes):
        x = encoder(x, p["model_encoder"], config, config.model_blocks, config.model_convs)
        outputs.append(x)
    m0, m1, m2 = outputs[-3:]
    start = np.concatenate([m0, m1], axis=1) @ p["start_pointer"]["kernel"]
    end = np.concatenate([m0, m2], axis=1) @ p["end_pointer"]["kernel"]
    return start[:, 0], end[:, 0]


def embedding(ids, characters, vectors, p, config):
    """Layer 1, [T, P]: the word's vector beside the maximum over its characters; two highways."""
    rows = []
    for at, word in enumerate(ids):
        fixed = vectors is not None
        x_w = vectors[at] if fixed else p["word_embedding"][word]
        x_w = p["unknown_word_embedding"] if fixed and word == 1 else x_w
        letters = np.array([p["character_embedding"][c] for c in characters[at] if c != 0])
        if config.char_pooling == "convolution":
            letters = relu(convolution(letters, p["character_convolution"]))
        x = np.concatenate([x_w, letters.max(axis=0)])
        rows.append(highway(highway(x, p["highway_0"]), p["highway_1"]))
    return np.array(rows)


def highway(x, p):
    """T(x) H(x) + (1 - T(x)) x (Srivastava et al. 2015)."""
    t = sigmoid(affine(x, p["gate"]))
    return t * relu(affine(x, p["transform"])) + (1 - t) * x


def encoder(x, p, config, blocks, convs):
    """Layers 2 and 4, [T, D]."""
    if config.positions == "once":
        x = x + positions(*x.shape)
    for number in range(blocks):
        x = block(x, layer(p["blocks"], number), config, convs, number, blocks)
    return layer_norm(x, p["norm"]) if config.final_norm else x


def layer(tree, number):
    """One layer's parameters, from arrays [L, ...]."""
    if isinstance(tree, dict):
        return {name: layer(branch, number) for name, branch in tree.items()}
    return tree[number]


def block(x, p, config, convs, number, blocks):
    """[convolution x # + self-attention + feed-forward], f(layernorm(x)) + x each."""
    if config.positions == "block":
        x = x + positions(*x.shape)
    operations = {}
    if config.convolution != "none":
        kind = separable_convolution if config.convolution == "separable" else convolution
        for n in range(convs):
            operations[f"convolution_{n}"] = lambda y, own: relu(kind(y, own))
    if config.self_attention:
        operations["self_attention"] = lambda y, own: self_attention(y, own, config.num_heads)
    operations["feed_forward"] = lambda y, own: affine(relu(affine(y, own["in"])), own["out"])
    for at, (name, f) in enumerate(operations.items(), start=1):
        depth = (number * len(operations) + at) / (blocks * len(operations))
        rate = 1 - depth * (1 - config.survival_prob) if config.scale_sublayers else 1
        x = rate * f(layer_norm(x, p[f"{name}_norm"]), p[name]) + x
    return x


def self_attention(x, p, heads):
    """Vaswani et al. 2017, section 3.2.2."""
    query, key, value = (affine(x, p[name]) for name in ("query", "key", "value"))
    size = x.shape[1] // heads
    looked = np.zeros_like(x)
    for h in range(heads):
        own = slice(h * size, (h + 1) * size)
        for t in range(len(x)):
            looked[t, own] = softmax(key[:, own] @ query[t, own] / np.sqrt(size)) @ value[:, own]
    return affine(looked, p["out"])


def positions(length, dim):
    """Sines, then cosines, whose wavelengths go from 2 pi to 10000 * 2 pi (same, section 3.5)."""
    wavelengths = 2 * np.pi * np.geomspace(1, 10_000, dim // 2)
    angles = 2 * np.pi * np.arange(length)[:, None] / wavelengths[None]
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


def context_query(context, question, similarity):
    """Layer 3 and the input of layer 4, [n, 4 D]; `similarity` holds the weights of c, q, c * q."""
    w_c, w_q, w_m = similarity
    (n, d), m = context.shape, len(question)
    triples = np.zeros((n, m, 3 * d))
    for i in range(n):
        for j in range(m):
            c, q = context[i], question[j]
            triples[i, j] = np.concatenate([q, c, q * c])
    s = triples @ np.concatenate([w_q, w_c, w_m])
    by_row = np.array([softmax(row) for row in s])
    by_column = np.array([softmax(column) for column in s.T]).T
    a = by_row @ question
    b = by_row @ by_column.T @ context
    return np.concatenate([context, a, context * a, context * b], axis=1)


def relu(x):
    return np.maximum(x, 0)
