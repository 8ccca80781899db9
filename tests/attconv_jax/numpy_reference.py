"""AttentiveConvNet (Yin & Schütze 2017, sections 3 and 4) as plain NumPy in float64, for one
example without padding.

Written from the paper, not from the code under test, whose parameter trees it reads. A text without
words has no states: as a context and after pooling it is zeros.
"""

import numpy as np
from scipy.special import expit as sigmoid
from scipy.special import softmax

from tests.numpy_reference import affine, convolution, windows


def model(texts, p, config):
    """The logits, and each layer's weights; a text is given by its word ids."""
    states, attention = [p["word_embedding"][ids] for ids in texts], []
    for number in range(config.layers):
        states, weights = attentive_convolution(states, p[f"layers_{number}"], config)
        attention.append(weights)
    pooled = [h.max(axis=0) if len(h) else np.zeros(h.shape[1]) for h in states]
    products = [pooled[0] * pooled[1]] if len(pooled) == 2 else []
    composition = np.concatenate([*pooled, *products])
    hidden_1 = leaky_relu(affine(composition, p["head"]["hidden_0"]))
    hidden_2 = leaky_relu(affine(hidden_1, p["head"]["hidden_1"]))
    return affine(np.concatenate([composition, hidden_1, hidden_2]), p["head"]["output"]), attention


def attentive_convolution(texts, p, config):
    """Eq. 5: the states [T, H] of the layer above for each text, and weights[x, a] [T, S] of text x
    over text a.

    W is one matrix here, for the window and the contexts; without contexts for the window only.
    """
    attention_kind = getattr(config, "attention", "none")  # a bi-CNN has none
    kinds = {"none": [], "both": ["inter", "intra"]}.get(attention_kind, [attention_kind])
    focus_p = p.get("source" if kinds and config.focus == config.source else "focus")
    above, weights = [], {}
    for x, h in enumerate(texts):
        # bi-CNN is the ordinary convolution of the states
        f = feature_map(h, config.beneficiary, p.get("beneficiary"), config) if kinds else h
        kernel = p["convolution"]["kernel"]
        assert len(kernel) == config.filter_width
        inputs, w = [windows(f, len(kernel))], [*kernel]
        for kind in kinds:
            if kind == "inter" and x == 1 and not config.symmetric:
                continue
            a = x if kind == "intra" else 1 - x
            source = feature_map(h, config.source, p.get("source"), config)
            focus = feature_map(texts[a], config.focus, focus_p, config)
            weights[x, a] = attention(source, focus, p.get("energy"), config)
            inputs.append(weights[x, a] @ focus)
            w.append(p[f"context_{kind}"]["kernel"])
        total = np.concatenate(inputs, axis=1) @ np.concatenate(w) + p["convolution"]["bias"]
        above.append(np.tanh(config.tanh_gain * total))
    return above, weights


def feature_map(h, kind, p, config):
    """f_bene (Eq. 13), f_mgran (Eq. 10-12), its halves, or the states themselves, [T, F]."""
    if kind == "states":
        return h
    maps = []
    for name, width in ("unigram", 1), ("phrase", config.phrase_width):
        if kind in (name, "multigranular"):
            assert len(p[name]["transform"]["kernel"]) == width
            maps.append(gated_convolution(h, p[name], config.gate))
    return np.concatenate(maps, axis=1)


def gated_convolution(h, p, gate):
    """f_gconv (Eq. 7-9), [T, D], of each state's window."""
    o = np.tanh(convolution(h, p["transform"]))
    if not gate:
        return o
    g = sigmoid(convolution(h, p["gate"]))
    return g * h + (1 - g) * o


def attention(source, focus, p, config):
    """The weights of Eq. 4, [T, S]; with `unmasked_softmax` the focus is padded with energies of
    0."""
    if not len(focus):
        return np.zeros((len(source), 0))
    pads = max(config.author_length - len(focus), 0) if config.unmasked_softmax else 0
    energies = np.pad(energy(source, focus, p, config.energy), ((0, 0), (0, pads)))
    return np.array([softmax(row)[: len(focus)] for row in energies]).reshape(-1, len(focus))


def energy(source, focus, p, kind):
    """f_e (Eq. 1-3), [T, S]."""
    if kind == "dot":
        return source @ focus.T
    if kind == "bilinear":
        return source @ p["source"]["kernel"] @ focus.T
    x, a = source @ p["source"]["kernel"], focus @ p["focus"]["kernel"]
    return np.tanh(x[:, None] + a[None]) @ p["weight"]


def leaky_relu(x):
    return np.where(x > 0, x, 0.02 * x)
