"""The comparison systems in limiting cases, in which a simpler equation gives the result, and in
bfloat16."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attconv_jax.models.base import POOLED
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from tests import random_params
from tests.attconv_jax.models.cases import (
    COMPLETE,
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
    words_of,
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

SIDES = "first", "second"
BOTH = SENTENCES[:1]
SWAPPED = [SENTENCES[0][::-1]]
BACKWARDS = each(BOTH, lambda x: x[::-1])


def muted(params, *names):
    """The parameters, with zeros for those named."""
    return {**params, **{name: jax.tree.map(np.zeros_like, params[name]) for name in names}}


def explained(system, params=None, sentences=None):
    """Logits, and the weights of each layer by text and context."""
    system = SYSTEMS.get(system, system)
    params = system.parameters if params is None else params
    logits, layers = system.explain(params, *padded(sentences or system.sentences))
    return logits, [{(int(text), int(context)): w for text, context, w in x} for x in layers]


def close(got, want, atol=1e-5):
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=atol)


def are_means(maps, empty_words=0):
    """All words of a context have the same weight, also beside words without a state."""
    for (text, context), weights in maps.items():
        for at, n in enumerate(LENGTHS[context]):
            rows = weights[at, words_of(text, at)]
            close(rows[:, :n], np.full((len(rows), n), 1 / (n + empty_words)), 1e-6)
            assert not rows[:, n:].any()


# Two systems, or two orders, with equal results.


def moved(layer, sizes, order):
    """A layer's parameters for its inputs, of these sizes, in another order."""
    parts = np.split(layer["kernel"], np.cumsum(sizes)[:-1])
    return {**layer, "kernel": np.concatenate([parts[n] for n in order])}


def of_the_head(params):
    own = params["head"]
    top = (4,) * 3
    hidden = moved(own["hidden_0"], top, (1, 0, 2))
    output = moved(own["output"], (*top, 4, 4), (1, 0, 2, 3, 4))
    return {**params, "head": {**own, "hidden_0": hidden, "output": output}}


def transposed(params):
    return {**of_the_head(params), "energy": {"kernel": params["energy"]["kernel"].T}}


def of_halves(*path):
    def change(params, at=0):
        name = path[at]
        if at + 1 < len(path):
            return {**params, name: change(params[name], at + 1)}
        half = len(params[name]["kernel"]) // 2
        return {**params, name: moved(params[name], (half, half), (1, 0))}

    return change


def of_levels(params):
    sizes = [DIM, DIM, 1, *[4, 4, 1] * sum(name.startswith("convolution") for name in params)]
    order = [3 * (n // 3) + (1, 0, 2)[n % 3] for n in range(len(sizes))]
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
    return {**of_rows(params), "hidden": moved(params["hidden"], (6, 6, 6, 2), (1, 0, 2, 3))}


EXCHANGED = {
    "decomposable": of_halves("aggregate", "layer_0"),
    "decomposable_intra": of_halves("aggregate", "layer_0"),
    "bi_lstm": of_halves("tanh_0"),
    "abcnn": of_the_head,
    "apcnn": transposed,
    "bcnn": of_levels,
    "abcnn1": of_levels,
    "abcnn2": of_levels,
    "abcnn3": of_levels,
    "lin_cnn": of_halves("hidden", "layer_0"),
    "self_attentive": of_rows,
    "nse": of_signs,
    "tree_cnn": of_signs,
    "bi_gru": of_both_grus,
    "cdssm": None,
    "word_by_word": None,
    "match_lstm": None,
    "lstmn": None,
    "sentence_rank": None,
}


@pytest.mark.parametrize("name", EXCHANGED)
def test_swapping_the_pair_swaps_what_is_pooled(name):
    """Logits are equal if the rows of the next matrix are swapped too."""
    params = SYSTEMS[name].parameters
    logits, layers = explained(name)
    swapped, _ = explained(name, params, SWAPPED)
    if name == "cdssm":
        close(swapped, logits)
    elif EXCHANGED[name] is None:  # premise and hypothesis
        assert (np.abs(swapped - logits).max(1) > 1e-3).all()
    else:
        assert np.abs(swapped - logits).max() > 1e-3
        other, others = explained(name, EXCHANGED[name](params), SWAPPED)
        close(other, logits)
        turned = lambda number: number if number == POOLED else 1 - number
        for maps, swapped_maps in zip(layers, others, strict=True):
            for (text, context), weights in maps.items():
                close(swapped_maps[turned(text), turned(context)], weights)


def of_distances(distance):
    params = SYSTEMS["decomposable_intra"].parameters
    return {**params, "within": {"distance": np.float32(distance)}}


def summed_halves():
    """Of decomposable attention for [a; a]: the sum of both halves of each matrix."""
    params = SYSTEMS["decomposable_intra"].parameters
    plain = {name: params[name] for name in SYSTEMS["decomposable"].parameters}
    for name, parts in (("attend", 1), ("compare", 2)):
        own = params[name]["layer_0"]
        size = own["kernel"].shape[1]
        both = own["kernel"].reshape(parts, 2, -1, size).sum(1).reshape(-1, size)
        plain[name] = {**params[name], "layer_0": {**own, "kernel": both}}
    return plain


def without_input_attention():
    params = muted(SYSTEMS["abcnn1"].parameters, "attention_0")
    own = params["convolution_0"]
    words = {**own, "kernel": own["kernel"][: 3 * DIM]}
    return params, {"convolution_0": words, "output": params["output"]}


def of_equal_states():
    params = SYSTEMS["bcnn"].parameters
    return {**params, "convolution_0": muted(params["convolution_0"], "kernel")}


def sides_of_trees():
    params = SYSTEMS["tree_cnn"].parameters
    own = params["tree"]
    names = "left", "right", "window_left", "window_right"
    others = "right", "left", "window_right", "window_left"
    return {**params, "tree": own | {a: own[b] for a, b in zip(names, others, strict=True)}}


MIRRORED = (
    "",
    "{}",
    "( {} {} )",
    "( ( {} {} ) {} )",
    "( {} ( {} ( {} {} ) ) )",
    "( ( ( {} {} ) {} ) ( {} {} ) )",
)
MIRRORED_TREES = dataclasses.replace(SYSTEMS["tree_cnn"], parses=MIRRORED)
ONE_CHANNEL = System(ConvolutionPooling(**CONVOLUTIONS), 1)
DOUBLED = each([SENTENCES[0][:1]], lambda x: 2 * x)
WITHOUT_W = without_input_attention()
EQUAL = {  # two systems with parameters and sentences; None stands for the usual ones
    "no order without distances": (
        ("decomposable", None, BACKWARDS),
        ("decomposable", None, BOTH),
    ),
    "no order with equal distances": (
        ("decomposable_intra", of_distances(np.zeros(6)), BACKWARDS),
        ("decomposable_intra", of_distances(np.zeros(6)), BOTH),
    ),
    "words that see but themselves: none within": (
        ("decomposable_intra", of_distances([0, 0, 1e3, 0, 0, 0]), BOTH),
        ("decomposable", summed_halves(), BOTH),
    ),
    "ABCNN-1 without W: BCNN": (("abcnn1", WITHOUT_W[0], BOTH), ("bcnn", WITHOUT_W[1], BOTH)),
    "ABCNN-2 with shares of 1 / w: BCNN": (
        ("abcnn2", of_equal_states(), BOTH),
        ("bcnn", of_equal_states(), BOTH),
    ),
    "equal copies: one channel of doubled vectors": (
        ("multichannel_cnn", None, [SENTENCES[0][:1]] * 2),
        (ONE_CHANNEL, SYSTEMS["multichannel_cnn"].parameters, DOUBLED),
    ),
    "mirrored trees: exchanged sides": (
        (MIRRORED_TREES, sides_of_trees(), BACKWARDS),
        ("tree_cnn", None, BOTH),
    ),
    "WordC1 swapped: WordC2": (("wordc1", {}, SWAPPED), ("wordc2", {}, BOTH)),
}
UNEQUAL = {  # in all pairs but the one of single words
    "distances": (("decomposable_intra", None, BACKWARDS), ("decomposable_intra", None, BOTH)),
    "trees": ((MIRRORED_TREES, None, BOTH), ("tree_cnn", None, BOTH)),
}


@pytest.mark.parametrize("case", EQUAL)
def test_two_systems_are_equal(case):
    (logits, layers), (want, wanted) = (explained(*run) for run in EQUAL[case])
    close(logits, want)
    if case.startswith("no order"):
        n, m = LENGTHS[0][0], LENGTHS[1][0]
        close(layers[0][0, 1][0, :n, :m], wanted[0][0, 1][0, :n, :m][::-1, ::-1])
    if case.startswith("words that see"):
        jax.tree.map(close, layers, wanted)
    if case.startswith("ABCNN-2"):
        # A window's weight is the number of the other text's, S + w - 1; a word is in w windows.
        maps, width = layers[0], 3
        for at, (n, m) in enumerate(zip(*LENGTHS, strict=True)):
            close(maps[POOLED, 0][at, 0, :n], np.full(n, width * (m + width - 1)))
            close(maps[POOLED, 1][at, 0, :m], np.full(m, width * (n + width - 1)))


@pytest.mark.parametrize(("run", "other"), UNEQUAL.values(), ids=UNEQUAL)
def test_order_changes_all_but_single_words(run, other):
    a, b = (explained(*each)[0] for each in (run, other))
    assert (np.abs(a - b).max(1) > 1e-3).tolist() == [True, True, True, False]


def test_what_is_100_percent_is_another_text():
    assert (explained("wordc1", {})[0] != explained("wordc2", {})[0]).any()


# Logits by a simpler equation.


@dataclasses.dataclass(frozen=True)
class Limit:
    """Attributes:
    logits: of the two texts [T, D] and the parameters.
    empty_words: all maps are means, with as many further words; None for other maps.
    """

    name: str
    change: Callable
    logits: Callable
    empty_words: int | None = 0
    sentences: list | None = None
    pairs: tuple = (*range(PAIRS),)
    parses: tuple | None = None


def without_matches(params):
    """Parameters with which the words of the two texts have orthogonal states."""
    own = params["layers_0"]["convolution"]
    kernel = own["kernel"].copy()
    kernel[:, :3, 2:] = 0
    kernel[:, 3:, :2] = 0
    convolution = {"kernel": kernel, "bias": own["bias"] * 0}
    return {**params, "layers_0": {"convolution": convolution}}


def of_own_dimensions():
    sides = np.float32([1, 1, 1, 0, 0]), np.float32([0, 0, 0, 1, 1])
    return [[[x * side for x in text] for text, side in zip(SENTENCES[0], sides, strict=True)]]


def means_of_states(name):
    model = SYSTEMS[name].model
    return lambda texts, p: head([states_of(x, p, model).mean(0) for x in texts], p["head"])


def mean_of_filters(texts, p):
    filters = (p[f"convolution_{width}"] for width in (1, 2, 3))
    h = np.concatenate([np.maximum(convolution(texts[0], own), 0) for own in filters], 1)
    return affine(h.mean(0), p["output"])


def first_of_word_by_word(texts, p):
    """r_1 is the mean of Y."""
    premise, hypothesis = (affine(x, p["project"]) for x in texts)
    Y, cell = lstm(premise, p["premise"])
    (h,), _ = lstm(hypothesis, p["hypothesis"], cell)
    return affine(np.tanh(Y.mean(0) @ p["p"] + h @ p["x"]), p["output"])


def means_of_match_lstm(texts, p):
    """a_k is the sum of n states divided by n + 1."""
    premise, hypothesis = (lstm(x, p["lstm"])[0] for x in texts)
    a = premise.sum(0) / (len(premise) + 1)
    inputs = np.array([np.concatenate([a, h]) for h in hypothesis])
    return affine(lstm(inputs, p["match_lstm"])[0][-1], p["output"])


def means_of_memories(texts, p):
    """o = 0: z is 1/n, and the mean m of the memory becomes m + (h - m) / n."""
    last = []
    for words in texts:
        m = words.mean(0)
        h = c = np.zeros(DIM)
        for _ in words:
            x = np.concatenate([np.zeros(DIM), m]) @ p["compose"] + p["compose_bias"]
            h, c = lstm_step(x, h, c, p["write"])
            m = m + (h - m) / len(words)
        last.append(h)
    return of_differences(*last, p)


def without_first_text(params):
    """Texts have at most two words, and a gate excludes the first text from the second."""
    closed = {**params["second"], "gate_bias": np.full(4, -1e3, np.float32)}
    return {**params, "second": closed}


def lstms_of_texts(texts, p):
    means = [lstm(x, p[name]["lstm"])[0].mean(0) for name, x in zip(SIDES, texts, strict=True)]
    return affine(relu_layers(np.concatenate(means), p["hidden"]), p["output"])


CHAINS = {
    "left": ("", "{}", "( {} {} )", "( ( {} {} ) {} )", "( ( ( {} {} ) {} ) {} )"),
    "right": ("", "{}", "( {} {} )", "( {} ( {} {} ) )", "( {} ( {} ( {} {} ) ) )"),
}


def recurrent_network(inner, outer, step):
    """From the deepest word of a tree that branches to one side to the one below the root."""

    def logits(texts, exact):
        p = exact["tree"]
        pooled = []
        for words in texts:
            state, *rest = affine(words, exact["project"])[::step]
            windows = [x @ p["window_parent"] for x in (state, *rest)]
            for x in rest:
                above = np.tanh(state @ p[inner] + x @ p[outer] + p["bias"])
                children = state @ p[f"window_{inner}"] + x @ p[f"window_{outer}"]
                windows.append(above @ p["window_parent"] + children)
                state = above
            pooled.append(np.tanh(np.max(windows, 0) + p["window_bias"]))
        return of_differences(*pooled, exact)

    return logits


def of_update_gates(bias):
    """GRUs that read no state; `bias` is added to that of the update gates."""

    def change(own):
        update = own["bias"] + np.repeat(np.float32([0, bias, 0]), 3)
        return {**own, "bias": update, "recurrent": np.zeros((3, 9), np.float32)}

    return lambda params: {
        **params,
        **{name: {way: change(own) for way, own in params[name].items()} for name in SIDES},
    }


def ends_of_texts(share):
    """Last states are this share of those of the last valid word and of the first one."""

    def logits(texts, p):
        last = []
        for name, words in zip(SIDES, texts, strict=True):
            ends = {"forward": words[-1], "backward": words[0]}
            new = [np.tanh(affine(x, p[name][way])[6:]) for way, x in ends.items()]
            last.append(np.concatenate(new) * share)
        both = 0 if len(texts[0]) == len(texts[1]) else 1  # the last pair has no common word
        joined = np.concatenate([*last, last[0] * last[1], p["shared"][both]])
        return affine(np.tanh(affine(joined, p["hidden"])), p["output"])

    return logits


def without_energies_or_gates(params):
    params = {**params, "question": muted(params["question"], "weight")}
    return params | {n: muted(params[n], "query", "gate") for n in ("match", "self_match")}


def added_means(texts, p):
    """x = [u; mean] / 2, and the question is the mean of its states."""
    beside = lambda u, mean: np.concatenate([u, np.tile(mean, (len(u), 1))], 1) / 2
    question, u = (both_directions(x, p["encode"]) for x in texts)
    v = both_directions(beside(u, question.mean(0)), p["matched"])
    h = both_directions(beside(v, v.mean(0)), p["self_matched"])
    return head([question.mean(0), h.max(0)], p["head"])


IDLE_SCORES = "premise", "hypothesis", "match", "match_bias"
LIMITS = {
    "texts that do not match": Limit(
        "abcnn", without_matches, means_of_states("abcnn"), sentences=of_own_dimensions()
    ),
    "U = 0": Limit("apcnn", lambda p: muted(p, "energy"), means_of_states("apcnn")),
    "internal attention, w = 0": Limit(
        "internal_attention",
        lambda p: {**p, "attention": muted(p["attention"], "weight")},
        mean_of_filters,
    ),
    "word by word, w = 0": Limit(  # pairs whose hypothesis is one word
        "word_by_word", lambda p: muted(p, "w"), first_of_word_by_word, pairs=(2, 3)
    ),
    "match-LSTM, W = 0": Limit(
        "match_lstm", lambda p: muted(p, *IDLE_SCORES), means_of_match_lstm, empty_words=1
    ),
    "NSE, o = 0": Limit("nse", lambda p: muted(p, "read"), means_of_memories),
    "LSTMN with a past of one word": Limit(
        "lstmn", without_first_text, lstms_of_texts, None, each(BOTH, lambda x: x[:2])
    ),
    **{
        f"trees that branch to the {side}": Limit(
            "tree_cnn",
            lambda p: p,
            recurrent_network(*sides),
            sentences=each(BOTH, lambda x: x[:4]),
            parses=CHAINS[side],
        )
        for side, sides in {"left": ("left", "right", 1), "right": ("right", "left", -1)}.items()
    },
    "GRUs that keep nothing": Limit("bi_gru", of_update_gates(-1e3), ends_of_texts(1)),
    "GRUs that keep all": Limit("bi_gru", of_update_gates(1e3), ends_of_texts(0)),
    "no energies, no gates": Limit("sentence_rank", without_energies_or_gates, added_means),
}


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_logits_are_those_of_a_simpler_equation(limit):
    system = SYSTEMS[limit.name]
    params = limit.change(system.parameters)
    if limit.parses:
        system = dataclasses.replace(system, parses=limit.parses)
    sentences = limit.sentences or system.sentences
    logits, layers = explained(system, params, sentences)
    exact = random_params.exact(params)
    for at in limit.pairs:
        close(logits[at], limit.logits(row_of(sentences, at)[0], exact))
    for maps in layers:
        if limit.empty_words is not None:
            are_means(maps, limit.empty_words)
        else:
            assert all({*maps[n, n].ravel().tolist()} == {0.0, 1.0} for n in (0, 1))


def test_a_word_alone_is_seen_as_far_as_the_empty_word_is_not():
    """beta = b without the empty word; with it beta is b times its weight, a sigmoid."""
    params = random_params.exact(SYSTEMS["decomposable"].parameters)
    logits, (maps,) = explained("decomposable")
    ((a,), (b,)), zero = row_of(SENTENCES, 3)[0], np.zeros(4)
    a, b = (x / np.linalg.norm(x) @ params["project"]["kernel"] for x in (a, b))
    F = lambda x: relu_layers(x, params["attend"])
    share = lambda own, other: sigmoid(F(own) @ (F(other) - F(zero)))
    compared = lambda x, y: relu_layers(np.concatenate([x, y]), params["compare"])
    v = [
        sum(compared(x, share(x, other) * other) for x in (zero, own))
        for own, other in ((a, b), (b, a))
    ]
    close(logits[3], affine(relu_layers(np.concatenate(v), params["aggregate"]), params["output"]))
    close(maps[0, 1][3, 0, 0], share(a, b))
    close(maps[1, 0][3, 0, 0], share(b, a))


@pytest.mark.parametrize("name", ["self_attentive", "self_attentive_review"])
def test_self_attentive_rows_without_w_2_are_means_with_a_known_penalty(name):
    """r (1/n - 1)^2 + r (r - 1) / n^2 for each text of n words."""
    system = SYSTEMS[name]
    params = {**system.parameters, "attention": muted(system.parameters["attention"], "out")}
    _, losses, _ = system.gradients(params, *padded(system.sentences))
    are_means(explained(name, params)[1][0])
    r = system.model.rows
    n = np.array(LENGTHS[: system.texts])
    each_text = r * (1 / n - 1) ** 2 + r * (r - 1) / n**2
    close(losses["penalty"], system.model.penalty * each_text.sum(0))


def test_word_by_word_without_w_t_and_w_r_sees_the_last_word_alone():
    """With a hypothesis whose LSTM forgets at once."""
    params = SYSTEMS["word_by_word"].parameters
    own = muted(params["hypothesis"], "recurrent")
    own["bias"] = own["bias"] + np.repeat(np.float32([0, -1e3, 0, 0]), 4)
    params = {**params, "hypothesis": own, "w": 20 * params["w"], "r": 5 * params["r"]}
    premises, hypotheses = SENTENCES[0]
    others = [
        np.concatenate([draw(x.shape, [3, n])[:-1], x[-1:]]) for n, x in enumerate(hypotheses)
    ]
    both = lambda *names: (
        explained("word_by_word", muted(params, *names), s)[0] for s in (None, [[premises, others]])
    )
    for name in "t", "r":
        a, b = both(name)
        assert np.abs(a - b)[0].max() > 1e-4
    close(*both("t", "r"), 1e-6)


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


def test_lstmn_without_v_has_means_of_what_came_before():
    params = {**SYSTEMS["lstmn"].parameters}
    for name, own in (("first", ["own_weight"]), ("second", ["own_weight", "other_weight"])):
        params[name] = muted(params[name], *own)
    _, (maps,) = explained("lstmn", params)
    for text in (0, 1):
        for weights, n in zip(maps[text, text], LENGTHS[text], strict=True):
            want = np.tril(np.ones((n, n)), -1) / np.maximum(np.arange(n), 1)[:, None]
            close(weights[:n, :n], want, 1e-6)
    are_means({(1, 0): maps[1, 0]})


def test_equal_texts_have_a_cosine_of_1():
    params = SYSTEMS["cdssm"].parameters
    logits, _ = explained("cdssm")
    assert (np.abs(logits[:, 1]) < np.abs(params["factor"])).all()
    same, _ = explained("cdssm", params, [[SENTENCES[0][0]] * 2])
    close(same, np.tile([0, params["factor"]], (PAIRS, 1)))


@pytest.mark.parametrize("name", COMPLETE)
def test_bfloat16_is_near_float32(name):
    system = SYSTEMS[name]
    short = dataclasses.replace(system, dtype=jnp.bfloat16)
    logits, losses, low = short.gradients(system.parameters, *padded(system.sentences))
    assert {x.dtype for x in jax.tree.leaves((logits, losses))} == {np.dtype(np.float32)}
    assert 0 < distance(logits, system.derived[0]) < 0.02
    assert distance(low, system.derived[2]) < 0.02


def distance(a, b):
    """The distance of two trees of arrays, relative to the norm of b."""
    a, b = (np.concatenate([x.ravel() for x in jax.tree.leaves(tree)]) for tree in (a, b))
    return np.linalg.norm(a.astype(np.float64) - b) / np.linalg.norm(b)
