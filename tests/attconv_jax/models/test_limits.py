"""The comparison systems in the cases whose result another equation gives."""

import jax
import numpy as np
import pytest

from attconv_jax.models.base import POOLED
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from tests import random_params
from tests.attconv_jax.models.cases import (
    CONVOLUTIONS,
    DIM,
    LENGTHS,
    PAIRS,
    SENTENCES,
    SYSTEMS,
    System,
    draw,
    each,
    padded,
    row_of,
)
from tests.attconv_jax.models.numpy_reference import head, lstm, relu_layers, states_of
from tests.numpy_reference import affine, convolution, sigmoid


def zeros(params):
    return jax.tree.map(np.zeros_like, params)


def muted(params, *names):
    """The parameters with zeros for these."""
    return {**params, **{name: zeros(params[name]) for name in names}}


def explained(name, params=None, sentences=None):
    """Logits, and the weights of each layer by text and context."""
    system = SYSTEMS[name]
    params = system.parameters if params is None else params
    sentences = system.sentences if sentences is None else sentences
    logits, layers = system.explain(params, *padded(sentences))
    return logits, [{(int(text), int(context)): w for text, context, w in x} for x in layers]


def close(got, want, atol=1e-5):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=atol)


def is_mean(weights, lengths):
    """Each row has equal weights for the words."""
    for rows, length in zip(weights, lengths, strict=True):
        close(rows[:, :length], np.full((len(rows), length), 1 / length), 1e-6)
        assert not rows[:, length:].any()


# Decomposable attention.


def of_distances(params, distance):
    return {**params, "within": {"distance": np.float32(distance)}}


@pytest.mark.parametrize("name", ["decomposable", "decomposable_intra"])
def test_the_order_of_words_is_nothing_to_decomposable_attention(name):
    """Within a text, while no distance has a bias."""
    params = SYSTEMS[name].parameters
    backwards = each(SYSTEMS[name].sentences, lambda x: x[::-1])
    if name == "decomposable_intra":
        a, b = (explained(name, params, s)[0] for s in (SENTENCES[:1], backwards))
        assert (np.abs(a - b).max(1) > 1e-3).tolist() == [True, True, True, False]
        params = of_distances(params, np.zeros(6))
    (logits, (maps,)), (other, (others,)) = (
        explained(name, params, s) for s in (SENTENCES[:1], backwards)
    )
    close(logits, other)
    n, m = LENGTHS[0][0], LENGTHS[1][0]
    close(maps[0, 1][0, :n, :m], others[0, 1][0, :n, :m][::-1, ::-1])


def test_words_that_see_but_themselves_are_those_without_attention_within_the_text():
    """a' = a, by d_0 = 1000: [a; a] goes through the sum of both halves of each matrix."""
    params = SYSTEMS["decomposable_intra"].parameters
    within = of_distances(params, [0, 0, 1e3, 0, 0, 0])
    plain = {name: params[name] for name in SYSTEMS["decomposable"].parameters}
    for name, parts in (("attend", 1), ("compare", 2)):
        kernel = params[name]["layer_0"]["kernel"]
        both = kernel.reshape(parts, 2, -1, kernel.shape[1]).sum(1).reshape(-1, kernel.shape[1])
        plain[name] = {**params[name], "layer_0": {**params[name]["layer_0"], "kernel": both}}
    (logits, (maps,)), (want, (wanted,)) = (
        explained("decomposable_intra", within),
        explained("decomposable", plain),
    )
    close(logits, want)
    jax.tree.map(close, maps, wanted)


def test_a_word_alone_is_seen_as_far_as_the_empty_word_is_not():
    """beta = b without the empty word; with it beta is b's share of b, a sigmoid."""
    params = random_params.exact(SYSTEMS["decomposable"].parameters)
    logits, (maps,) = explained("decomposable")
    ((a,), (b,)), zero = row_of(SENTENCES, 3)[0], np.zeros(4)
    a, b = (x / np.linalg.norm(x) @ params["project"]["kernel"] for x in (a, b))
    F = lambda x: relu_layers(x, params["attend"])
    share = lambda own, other: sigmoid(F(own) @ (F(other) - F(zero)))
    v = [
        sum(
            relu_layers(np.concatenate([x, share(x, other) * other]), params["compare"])
            for x in (zero, own)
        )
        for own, other in ((a, b), (b, a))
    ]
    close(logits[3], affine(relu_layers(np.concatenate(v), params["aggregate"]), params["output"]))
    close(maps[0, 1][3, 0, 0], share(a, b))
    close(maps[1, 0][3, 0, 0], share(b, a))


# The order of the pair.


def moved(layer, sizes, order):
    """A layer's parameters for inputs of these sizes in another order."""
    parts = np.split(layer["kernel"], np.cumsum(sizes)[:-1])
    return {**layer, "kernel": np.concatenate([parts[n] for n in order])}


def of_the_head(params):
    own, top = params["head"], (4,) * 3
    hidden = moved(own["hidden_0"], top, (1, 0, 2))
    output = moved(own["output"], (*top, 4, 4), (1, 0, 2, 3, 4))
    return {**params, "head": {**own, "hidden_0": hidden, "output": output}}


def transposed(params):
    return {**of_the_head(params), "energy": {"kernel": params["energy"]["kernel"].T}}


def of_halves(params, *path):
    name, *rest = path
    if rest:
        return {**params, name: of_halves(params[name], *rest)}
    half = len(params[name]["kernel"]) // 2
    return {**params, name: moved(params[name], (half, half), (1, 0))}


def of_levels(params, layers):
    sizes = [DIM, DIM, 1, *[4, 4, 1] * layers]
    order = [3 * n + at for n in range(layers + 1) for at in (1, 0, 2)]
    return {**params, "output": moved(params["output"], sizes, order)}


def of_rows(params):
    return {**params, "first": params["second"], "second": params["first"]}


SWAPPED = {
    "decomposable": lambda params: of_halves(params, "aggregate", "layer_0"),
    "decomposable_intra": lambda params: of_halves(params, "aggregate", "layer_0"),
    "bi_lstm": lambda params: of_halves(params, "tanh_0"),
    "abcnn": of_the_head,
    "apcnn": transposed,
    "bcnn": lambda params: of_levels(params, 1),
    "abcnn1": lambda params: of_levels(params, 1),
    "abcnn2": lambda params: of_levels(params, 1),
    "abcnn3": lambda params: of_levels(params, 2),
    "lin_cnn": lambda params: of_halves(params, "hidden", "layer_0"),
    "self_attentive": of_rows,
}


@pytest.mark.parametrize("name", SWAPPED)
def test_swapping_the_pair_swaps_what_is_pooled(name):
    """With the rows of the next matrix swapped, logits are the same."""
    params, swapped = SYSTEMS[name].parameters, [SENTENCES[0][::-1]]
    logits, layers = explained(name)
    other, others = explained(name, SWAPPED[name](params), swapped)
    close(other, logits)
    assert np.abs(explained(name, params, swapped)[0] - logits).max() > 1e-3
    turned = lambda number: number if number == POOLED else 1 - number
    for maps, swapped_maps in zip(layers, others, strict=True):
        for (text, context), weights in maps.items():
            close(swapped_maps[turned(text), turned(context)], weights)


@pytest.mark.parametrize("name", ["word_by_word", "match_lstm"])
def test_premise_and_hypothesis_are_not_exchanged(name):
    swapped, _ = explained(name, sentences=[SENTENCES[0][::-1]])
    assert (np.abs(explained(name)[0] - swapped).max(1) > 1e-3).all()


# Attention in pooling.


def without_matches(params):
    """The dimensions of the first text's words and of the second's lead to different states."""
    own = params["layers_0"]["convolution"]
    kernel = own["kernel"].copy()
    kernel[:, :3, 2:], kernel[:, 3:, :2] = 0, 0
    convolution = {"kernel": kernel, "bias": own["bias"] * 0}
    return {**params, "layers_0": {"convolution": convolution}}


def of_own_dimensions():
    sides = np.float32([1, 1, 1, 0, 0]), np.float32([0, 0, 0, 1, 1])
    return [[[x * side for x in text] for text, side in zip(SENTENCES[0], sides, strict=True)]]


@pytest.mark.parametrize("name", ["abcnn", "apcnn"])
def test_texts_that_do_not_match_are_pooled_by_their_means(name):
    """A = 0, or U = 0."""
    system = SYSTEMS[name]
    if name == "abcnn":
        params, sentences = without_matches(system.parameters), of_own_dimensions()
    else:
        params, sentences = muted(system.parameters, "energy"), system.sentences
    logits, (maps,) = explained(name, params, sentences)
    for text, lengths in enumerate(LENGTHS):
        is_mean(maps[POOLED, text], lengths)
    exact = random_params.exact(params)
    for at in range(PAIRS):
        states = [states_of(words, exact, system.model) for words in row_of(sentences, at)[0]]
        close(logits[at], head([h.mean(0) for h in states], exact["head"]))


def test_abcnn_1_without_w_is_bcnn():
    params = muted(SYSTEMS["abcnn1"].parameters, "attention_0")
    own = params["convolution_0"]
    words = {**own, "kernel": own["kernel"][: 3 * DIM]}
    plain = {"convolution_0": words, "output": params["output"]}
    close(explained("abcnn1", params)[0], explained("bcnn", plain)[0])


def test_abcnn_2_with_shares_of_1_over_w_is_bcnn():
    """Equal states have a share for each window of the other text, of which there are S + w - 1; a
    word is in w windows, and the scale of a text's mean does not matter."""
    params, width = muted(SYSTEMS["bcnn"].parameters), 3
    params["convolution_0"] = {
        "kernel": params["convolution_0"]["kernel"] * 0,
        "bias": params["convolution_0"]["bias"],
    }
    (logits, _), (shared, (maps,)) = (explained(name, params) for name in ("bcnn", "abcnn2"))
    close(shared, logits)
    for at, (n, m) in enumerate(zip(*LENGTHS, strict=True)):
        close(maps[POOLED, 0][at, 0, :n], np.full(n, width * (m + width - 1)))
        close(maps[POOLED, 1][at, 0, :m], np.full(m, width * (n + width - 1)))


# Convolutions and LSTMs that are pooled.


def test_equal_copies_are_one_channel_of_doubled_vectors():
    one = System(ConvolutionPooling(**CONVOLUTIONS), 1)
    params, copies = SYSTEMS["multichannel_cnn"].parameters, [SENTENCES[0][:1]] * 2
    doubled = each(one.sentences, lambda x: 2 * x)
    want, _ = one.explain(params, *padded(doubled))
    close(explained("multichannel_cnn", params, copies)[0], want)


def test_internal_attention_without_weight_is_the_mean():
    system = SYSTEMS["internal_attention"]
    own = system.parameters["attention"]
    params = {**system.parameters, "attention": muted(own, "weight")}
    logits, (maps,) = explained("internal_attention", params)
    is_mean(maps[POOLED, 0], LENGTHS[0])
    exact = random_params.exact(params)
    for at, words in enumerate(SENTENCES[0][0]):
        filters = (exact[f"convolution_{width}"] for width in (1, 2, 3))
        h = np.concatenate([np.maximum(convolution(words, own), 0) for own in filters], 1)
        close(logits[at], affine(h.mean(0), exact["output"]))


@pytest.mark.parametrize("name", ["self_attentive", "self_attentive_review"])
def test_self_attentive_rows_without_w_2_are_means_with_a_known_penalty(name):
    """r (1/n - 1)^2 + r (r - 1) / n^2 for each text of n words."""
    system = SYSTEMS[name]
    own = system.parameters["attention"]
    params = {**system.parameters, "attention": muted(own, "out")}
    _, losses, _ = system.gradients(params, *padded(system.sentences))
    _, (maps,) = explained(name, params)
    r, n = system.model.rows, np.array(LENGTHS[: system.texts])
    for text, lengths in enumerate(n):
        is_mean(maps[POOLED, text], lengths)
    each_text = r * (1 / n - 1) ** 2 + r * (r - 1) / n**2
    close(losses["penalty"], system.model.penalty * each_text.sum(0))


# Word by word.


def test_word_by_word_without_w_begins_with_the_premises_mean():
    """r_1 is Y's mean: the pairs whose hypothesis is one word show it."""
    params = muted(SYSTEMS["word_by_word"].parameters, "w")
    logits, (maps,) = explained("word_by_word", params)
    for at, (n, m) in enumerate(zip(*LENGTHS, strict=True)):
        close(maps[1, 0][at, :m, :n], np.full((m, n), 1 / n), 1e-6)
    exact = random_params.exact(params)
    for at in (2, 3):
        words = [affine(x, exact["project"]) for x in row_of(SENTENCES, at)[0]]
        Y, cell = lstm(words[0], exact["premise"])
        (h,), _ = lstm(words[1], exact["hypothesis"], cell)
        top = np.tanh(Y.mean(0) @ exact["p"] + h @ exact["x"])
        close(logits[at], affine(top, exact["output"]))


def test_word_by_word_without_w_t_and_w_r_sees_the_last_word_alone():
    """Of a hypothesis whose LSTM forgets at once."""
    params = SYSTEMS["word_by_word"].parameters
    own = muted(params["hypothesis"], "recurrent")
    own["bias"] = own["bias"] + np.repeat(np.float32([0, -1e3, 0, 0]), 4)
    larger = {"w": 20 * params["w"], "r": 5 * params["r"]}
    params = {**params, "hypothesis": own, **larger}
    others = [draw(x.shape, [3, n]) for n, x in enumerate(SENTENCES[0][1])]
    others = [
        np.concatenate([a[:-1], b[-1:]]) for a, b in zip(others, SENTENCES[0][1], strict=True)
    ]
    sentences = [[SENTENCES[0][0], others]]
    both = lambda params: (explained("word_by_word", params, s)[0] for s in (None, sentences))
    for name in "t", "r":
        a, b = both(muted(params, name))
        assert np.abs(a - b)[0].max() > 1e-4
    close(*both(muted(params, "t", "r")), 1e-6)


def test_match_lstm_without_scores_reads_the_premises_mean_and_its_empty_word():
    """W_s = W_t = W_m = 0: a_k is the sum of n states divided by n + 1."""
    idle = "premise", "hypothesis", "match", "match_bias"
    params = muted(SYSTEMS["match_lstm"].parameters, *idle)
    logits, (maps,) = explained("match_lstm", params)
    exact = random_params.exact(params)
    for at, (n, m) in enumerate(zip(*LENGTHS, strict=True)):
        close(maps[1, 0][at, :m, :n], np.full((m, n), 1 / (n + 1)), 1e-6)
        premise, hypothesis = (lstm(x, exact["lstm"])[0] for x in row_of(SENTENCES, at)[0])
        a = premise.sum(0) / (n + 1)
        inputs = np.array([np.concatenate([a, h]) for h in hypothesis])
        last = lstm(inputs, exact["match_lstm"])[0][-1]
        close(logits[at], affine(last, exact["output"]))
