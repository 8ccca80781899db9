"""Limiting cases of the comparison systems, in which a simpler equation gives the result."""

import dataclasses

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
from tests.attconv_jax.models.numpy_reference import (
    head,
    of_differences,
    relu_layers,
    states_of,
)
from tests.numpy_reference import (
    affine,
    both_directions,
    convolution,
    lstm,
    lstm_step,
    sigmoid,
)


def zeros(params):
    return jax.tree.map(np.zeros_like, params)


def muted(params, *names):
    """The parameters, with zeros for those named."""
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
    """Also with attention within each text, while no distance has a bias."""
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
    """a' = a, by d_0 = 1000: [a; a] is mapped by the sum of both halves of each matrix."""
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
    """beta = b without the empty word; with it beta is b times its weight, a sigmoid."""
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
    """A layer's parameters for its inputs, of these sizes, in another order."""
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


def of_signs(params):
    """Signs for [u; v; u - v; u * v]."""
    own = params["hidden"]["layer_0"]
    u, v, difference, product = np.split(own["kernel"], 4)
    kernel = np.concatenate([v, u, -difference, product])
    return {**params, "hidden": {"layer_0": {**own, "kernel": kernel}}}


def of_both_grus(params):
    sizes = (6, 6, 6, 2)
    return {**of_rows(params), "hidden": moved(params["hidden"], sizes, (1, 0, 2, 3))}


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
    "nse": of_signs,
    "tree_cnn": of_signs,
    "bi_gru": of_both_grus,
}


@pytest.mark.parametrize("name", SWAPPED)
def test_swapping_the_pair_swaps_what_is_pooled(name):
    """Logits are equal if the rows of the next matrix are swapped too."""
    params, swapped = SYSTEMS[name].parameters, [SENTENCES[0][::-1]]
    logits, layers = explained(name)
    other, others = explained(name, SWAPPED[name](params), swapped)
    close(other, logits)
    assert np.abs(explained(name, params, swapped)[0] - logits).max() > 1e-3
    turned = lambda number: number if number == POOLED else 1 - number
    for maps, swapped_maps in zip(layers, others, strict=True):
        for (text, context), weights in maps.items():
            close(swapped_maps[turned(text), turned(context)], weights)


@pytest.mark.parametrize("name", ["word_by_word", "match_lstm", "lstmn", "sentence_rank"])
def test_premise_and_hypothesis_are_not_exchanged(name):
    swapped, _ = explained(name, sentences=[SENTENCES[0][::-1]])
    assert (np.abs(explained(name)[0] - swapped).max(1) > 1e-3).all()


# Attention in pooling.


def without_matches(params):
    """Parameters with which the words of the two texts have orthogonal states."""
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
    """A = 0, by orthogonal states or U = 0."""
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
    """With equal states the weight of every window is the number of the other text's windows, S + w
    - 1; a word is in w windows, and the scale of a text's mean does not matter."""
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
    """r_1 is the mean of Y, tested by pairs whose hypothesis is one word."""
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
    """With a hypothesis whose LSTM forgets at once."""
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


# Memories.


def test_nse_without_a_reader_reads_the_memorys_mean():
    """o = 0: z is 1/n, and the mean m of the memory becomes m + (h - m) / n."""
    params = muted(SYSTEMS["nse"].parameters, "read")
    logits, (maps,) = explained("nse", params)
    exact = random_params.exact(params)
    for text, lengths in enumerate(LENGTHS):
        for weights, n in zip(maps[text, text], lengths, strict=True):
            is_mean(weights[None, :n], [n])
    for at in range(PAIRS):
        last = []
        for words in row_of(SENTENCES, at)[0]:
            m, n = words.mean(0), len(words)
            h = c = np.zeros(DIM)
            for _ in words:
                x = np.concatenate([np.zeros(DIM), m]) @ exact["compose"] + exact["compose_bias"]
                h, c = lstm_step(x, h, c, exact["write"])
                m = m + (h - m) / n
            last.append(h)
        close(logits[at], of_differences(*last, exact))


def test_nse_with_one_hot_weights_reads_and_writes_one_row():
    """Words are so large that z selects one of them, which h replaces; matrices are as many times
    smaller. No o may be far from all remaining words, or z would be spread over rows that were
    written."""
    large, params = 1000, {**SYSTEMS["nse"].parameters}
    params["read"] = {**params["read"], "kernel": params["read"]["kernel"] / large}
    params["compose"] = params["compose"] / np.repeat(np.float32([1, large]), DIM)[:, None]
    drawn = ((6, 3), (3, 2), (11, 2), (10, 3)), ((2, 4), (5, 3), (1, 2), (6, 2))
    sentences = [
        [[np.float32(large) * draw((length, DIM), [n, 9]) for n, length in text] for text in drawn]
    ]
    logits, (maps,) = explained("nse", params, sentences)
    exact, again = random_params.exact(params), 0
    for at in range(PAIRS):
        last = []
        for text, memory in enumerate(row_of(sentences, at)[0]):
            opened, _ = lstm(memory, exact["read"])
            h = c = np.zeros(DIM)
            written = set()
            for o, z in zip(opened, maps[text, text][at], strict=False):
                row = int(z.argmax())
                close(z, np.eye(len(z))[row], 1e-6)
                again += row in written
                written.add(row)
                x = np.concatenate([o, memory[row]]) @ exact["compose"] + exact["compose_bias"]
                h, c = lstm_step(x, h, c, exact["write"])
                memory[row] = h
            last.append(h)
        close(logits[at], of_differences(*last, exact))
    assert again


def test_lstmn_with_a_past_of_one_word_is_an_lstm():
    """Texts have at most two words, and a gate excludes the first text from the second."""
    params = {**SYSTEMS["lstmn"].parameters}
    params["second"] = {**params["second"], "gate_bias": np.full(4, -1e3, np.float32)}
    sentences = each(SENTENCES[:1], lambda x: x[:2])
    logits, (maps,) = explained("lstmn", params, sentences)
    exact = random_params.exact(params)
    for at in range(PAIRS):
        texts = zip(("first", "second"), row_of(sentences, at)[0], strict=True)
        means = [lstm(words, exact[name]["lstm"])[0].mean(0) for name, words in texts]
        joined = relu_layers(np.concatenate(means), exact["hidden"])
        close(logits[at], affine(joined, exact["output"]))
    for text in (0, 1):
        assert {*maps[text, text].ravel().tolist()} == {0.0, 1.0}


def test_lstmn_without_v_has_means_of_what_came_before():
    params = {**SYSTEMS["lstmn"].parameters}
    for name, own in (("first", ["own_weight"]), ("second", ["own_weight", "other_weight"])):
        params[name] = muted(params[name], *own)
    _, (maps,) = explained("lstmn", params)
    for text in (0, 1):
        for at, length in enumerate(LENGTHS[text]):
            want = (
                np.tril(np.ones((length, length)), -1) / np.maximum(np.arange(length), 1)[:, None]
            )
            close(maps[text, text][at, :length, :length], want, 1e-6)
    for weights, (n, m) in zip(maps[1, 0], zip(*LENGTHS, strict=True), strict=True):
        is_mean(weights[None, :m], [n])


# By trees.

MIRRORED = (
    "",
    "{}",
    "( {} {} )",
    "( ( {} {} ) {} )",
    "( {} ( {} ( {} {} ) ) )",
    "( ( ( {} {} ) {} ) ( {} {} ) )",
)
CHAINS = {
    "left": ("", "{}", "( {} {} )", "( ( {} {} ) {} )", "( ( ( {} {} ) {} ) {} )"),
    "right": ("", "{}", "( {} {} )", "( {} ( {} {} ) )", "( {} ( {} ( {} {} ) ) )"),
}


def of_trees(parses, params, sentences):
    system = dataclasses.replace(SYSTEMS["tree_cnn"], parses=parses)
    return system.explain(params, *padded(sentences))[0]


def exchanged(params):
    """The tree's matrices with left and right exchanged."""
    own = params["tree"]
    names = "left", "right", "window_left", "window_right"
    others = "right", "left", "window_right", "window_left"
    return {
        **params,
        "tree": own | {a: own[b] for a, b in zip(names, others, strict=True)},
    }


def test_mirrored_trees_have_the_features_of_exchanged_sides():
    params, backwards = SYSTEMS["tree_cnn"].parameters, each(SENTENCES[:1], lambda x: x[::-1])
    logits, _ = explained("tree_cnn")
    close(of_trees(MIRRORED, exchanged(params), backwards), logits)
    other = np.abs(of_trees(MIRRORED, params, SENTENCES[:1]) - logits).max(1) > 1e-3
    assert other.tolist() == [True, True, True, False]  # the last pair has no other trees


@pytest.mark.parametrize("side", CHAINS)
def test_trees_that_branch_to_one_side_are_recurrent_networks(side):
    params = SYSTEMS["tree_cnn"].parameters
    sentences = each(SENTENCES[:1], lambda x: x[:4])
    exact = random_params.exact(params)
    p = exact["tree"]
    # from the deepest word to the one below the root
    inner, outer = ("left", "right") if side == "left" else ("right", "left")
    logits = of_trees(CHAINS[side], params, sentences)
    for at in range(PAIRS):
        pooled = []
        for words in row_of(sentences, at)[0]:
            state, *rest = affine(words, exact["project"])[:: 1 if side == "left" else -1]
            windows = [x @ p["window_parent"] for x in (state, *rest)]
            for x in rest:
                above = np.tanh(state @ p[inner] + x @ p[outer] + p["bias"])
                children = state @ p[f"window_{inner}"] + x @ p[f"window_{outer}"]
                windows.append(above @ p["window_parent"] + children)
                state = above
            pooled.append(np.tanh(np.max(windows, 0) + p["window_bias"]))
        close(logits[at], of_differences(*pooled, exact))


# A question and a sentence.


def of_gates(params, name, direction, **parts):
    """Parameters with changed arrays in one GRU; "update" is added to its gate's bias."""
    own = params[name][direction]
    bias = own["bias"] + np.repeat(np.float32([0, parts.pop("update", 0), 0]), 3)
    return {**params, name: {**params[name], direction: {**own, "bias": bias, **parts}}}


@pytest.mark.parametrize("keeps", [False, True])
def test_bi_gru_that_keeps_nothing_or_all(keeps):
    """Last states are those of the last valid word and of the first one, or the initial zeros."""
    params = SYSTEMS["bi_gru"].parameters
    for name in ("first", "second"):
        for direction in ("forward", "backward"):
            params = of_gates(
                params,
                name,
                direction,
                update=1e3 if keeps else -1e3,
                recurrent=np.zeros((3, 9), np.float32),
            )
    logits, _ = explained("bi_gru", params)
    exact = random_params.exact(params)
    for at in range(PAIRS):
        last = []
        for name, words in zip(("first", "second"), row_of(SENTENCES, at)[0], strict=True):
            ends = {"forward": words[-1], "backward": words[0]}
            new = [np.tanh(affine(x, exact[name][way])[6:]) for way, x in ends.items()]
            last.append(np.concatenate(new) * (not keeps))
        shared = exact["shared"][(1, 1, 1, 0)[at]]
        joined = np.concatenate([*last, last[0] * last[1], shared])
        close(logits[at], affine(np.tanh(affine(joined, exact["hidden"])), exact["output"]))


def test_sentence_rank_without_energies_or_gates_adds_means():
    """x = [u; mean] / 2, and the question is the mean of its states."""
    params = {**SYSTEMS["sentence_rank"].parameters}
    for name in ("match", "self_match"):
        params[name] = muted(params[name], "query", "gate")
    params["question"] = muted(params["question"], "weight")
    logits, (to_question, to_itself, pooling) = explained("sentence_rank", params)
    for at, (n, m) in enumerate(zip(*LENGTHS, strict=True)):
        is_mean(to_question[1, 0][None, at, :m], [n])
        is_mean(to_itself[1, 1][None, at, :m], [m])
    is_mean(pooling[POOLED, 0], LENGTHS[0])
    exact = random_params.exact(params)
    beside = lambda u, mean: np.concatenate([u, np.tile(mean, (len(u), 1))], 1) / 2
    for at in range(PAIRS):
        question, u = (both_directions(x, exact["encode"]) for x in row_of(SENTENCES, at)[0])
        v = both_directions(beside(u, question.mean(0)), exact["matched"])
        h = both_directions(beside(v, v.mean(0)), exact["self_matched"])
        close(logits[at], head([question.mean(0), h.max(0)], exact["head"]))


def test_cosine_of_trigrams():
    """It is 1 for equal texts, and does not depend on the order of a pair."""
    params, (first, second) = SYSTEMS["cdssm"].parameters, SENTENCES[0]
    logits, _ = explained("cdssm", params)
    assert (np.abs(logits[:, 1]) < np.abs(params["factor"])).all()
    close(explained("cdssm", params, [[second, first]])[0], logits)
    same, _ = explained("cdssm", params, [[first, first]])
    close(same, np.tile([0, params["factor"]], (PAIRS, 1)))


def test_what_is_100_percent_is_the_other_text_in_a_swapped_pair():
    swapped = [SENTENCES[0][::-1]]
    close(explained("wordc1", {}, swapped)[0], explained("wordc2", {})[0])
    assert (explained("wordc1", {})[0] != explained("wordc2", {})[0]).any()
