"""The translation task: loss and text."""

import types

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from csan_jax.attention.area import Area
from csan_jax.data.subwords import Subwords
from csan_jax.predictor import Translator
from csan_jax.service import TranslationService
from csan_jax.task import cross_entropy, to_text
from tests.csan_jax.test_model import TOYS
from tests.families.tasks import translation


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_cross_entropy_is_that_of_the_smoothed_distribution(smoothing):
    """Its gradient is softmax minus that distribution."""
    random = np.random.default_rng(0)
    logits = random.normal(size=(2, 3, 7)).astype(np.float32) * 3
    targets = random.integers(0, 7, (2, 3)).astype(np.int32)
    weights = random.normal(size=(2, 3))
    logp = logits - scipy.special.logsumexp(logits.astype(np.float64), axis=-1, keepdims=True)
    expected = (1 - smoothing) * np.eye(7)[targets] + smoothing / 7
    ids = jnp.asarray(targets)
    loss, nll = cross_entropy(jnp.asarray(logits), ids, smoothing)
    np.testing.assert_allclose(loss, -(expected * logp).sum(-1), rtol=1e-5)
    np.testing.assert_allclose(nll, -(np.eye(7)[targets] * logp).sum(-1), rtol=1e-5)
    total = lambda x: (cross_entropy(x, ids, smoothing)[0] * weights.astype(np.float32)).sum()
    slopes = weights[..., None] * (np.exp(logp) - expected)
    np.testing.assert_allclose(jax.grad(total)(jnp.asarray(logits)), slopes, atol=1e-6)


def test_the_models_size_is_the_tokenisers_where_the_config_says_0():
    task = translation(model={"tie": "none", "source_vocab_size": 0}, data={"vocab_size": 123})
    shapes = nn.unbox(jax.eval_shape(task.init, jax.random.key(0)))
    assert shapes["source_embedding"].shape == (123, 32)
    assert shapes["target_embedding"].shape == (40, 32)


def test_rows_without_a_piece_are_never_generated():
    task = translation(model={"tie": "none"})
    params = nn.unbox(jax.jit(task.init)(jax.random.key(0)))
    source = jnp.ones((4, 3), jnp.int32).at[:, 0].set(jnp.arange(5, 9))
    best = lambda: np.asarray(jax.jit(lambda params: task.translate(params, source, 2)[0])(params))
    assert best().max() >= 20
    task.data = types.SimpleNamespace(
        source_subwords=types.SimpleNamespace(size=40),
        target_subwords=types.SimpleNamespace(size=20),
    )
    task._check_vocabulary()
    assert 2 <= best().max() < 20


class Spelled(Subwords):
    """The texts of a split, and predictions that are the references, by character."""

    def __init__(self, references):
        self.lines = references
        self.target_subwords = self
        self.characters = sorted({*"".join(references)})

    def references(self, split):
        return self.lines

    sources = references

    def decode(self, rows):
        return ["".join(self.characters[number - 2] for number in row) for row in rows]

    def predictions(self):
        pieces = np.zeros((len(self.lines), 99), np.int32)
        for row, line in zip(pieces, self.lines, strict=True):
            row[: len(line) + 1] = [*(self.characters.index(c) + 2 for c in line), 1]
        return {"pieces": pieces, "nll": np.ones(len(pieces)), "weight": np.ones(len(pieces))}


THAI = ["แมวดำนอนบนโต๊ะ", "ฉันกินข้าวผัดแล้ว"]
GLUED = ["EineschwarzeKatzeschläft.", "IchhabeschonReisgegessen."]


@pytest.mark.parametrize(
    ("language", "lines", "good"),
    [("th", THAI, True), ("ja", THAI, True), ("nod", THAI, True), ("de", GLUED, False)],
)
def test_bleu_that_does_not_fit_the_text_is_reported(language, lines, good, caplog, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)  # no MeCab
    task = translation(data={"target_language": language})
    task.data = Spelled(lines)
    task._set_metric_names()
    scores = task.score("dev", task.data.predictions())
    assert scores.metrics.keys() == {*task.metric_names}
    assert ("tokenized_bleu" in task.metric_names) == (language == "de")
    assert scores.metrics["chrf"] == pytest.approx(100)
    assert (scores.metrics["sacrebleu"] > 99) == good
    assert ("dev: BLEU 0.00 is too low for chrF 100.0" in caplog.text) == (not good)
    assert ("MeCab" in scores.notes.get("sacrebleu_tokenizer", "")) == (language == "ja")
    assert TranslationService(task).card_facts == [f"translates `en` into `{language}`"]


def test_a_line_has_the_white_space_of_training():
    subwords = Subwords.train(["the cat sat on a mat"] * 9, 280)
    as_in = lambda rule: types.SimpleNamespace(
        _source=subwords, _settings=Translator.Settings(1, 64, white_space=rule)
    )
    parse = lambda rule, text: Translator.parse(as_in(rule), text, "").pieces
    for space in "\t\u00a0\r\x85\u2028\u3000":
        line = f"\u00a0the{space}cat{space} sat"
        assert parse("blanks", line) == parse("keep", "the cat sat") != parse("keep", line)
    earlier = Translator.Settings(1, 64)  # of exports of earlier versions
    assert (earlier.white_space, earlier.moses_escapes, earlier.quotes) == ("keep", "keep", "auto")


def test_text_ends_at_the_end_symbol_and_stays_one_line():
    decode = lambda rows: ["".join("\n" if i == 9 else chr(96 + i) for i in row) for row in rows]
    rows = np.array([[3, 4, 1, 5], [3, 9, 4, 0], [1, 3, 3, 3], [3, 4, 5, 6]])
    subwords = Spelled([])
    subwords.decode = decode
    assert to_text(subwords, rows) == ["cd", "c d", "", "cdef"]


AREA = {"encoder_attention": Area(1, token_window=5)}


@pytest.mark.parametrize(
    "model",
    [
        pytest.param({**AREA, "attention": "dense"}, marks=pytest.mark.slow),
        {**AREA, "attention": "banded"},
        TOYS,
    ],
    ids=["dense", "banded", "toys"],
)
def test_packed_rows_lose_what_single_ones_do(model):
    """The same sentences, alone and packed in rows, give the same sums and gradient."""
    random = np.random.default_rng(2)
    pairs = [[random.integers(3, 40, n) for n in random.integers(1, 12, 2)] for _ in range(9)]
    single = {"index": np.arange(9, dtype=np.int32)}
    packed = {"index": np.arange(3, dtype=np.int32)}
    for side, column in enumerate(("source", "target")):
        single[column] = np.zeros((9, 12), np.int32)
        packed[column], packed[f"{column}_segments"] = np.zeros((2, 3, 40), np.int32)
        for number, pair in enumerate(pairs):
            pieces = [*pair[side], 1]
            single[column][number, : len(pieces)] = pieces
            row, before = divmod(number, 3)
            start = sum(len(p[side]) + 1 for p in pairs[number - before : number])
            packed[column][row, start : start + len(pieces)] = pieces
            packed[f"{column}_segments"][row, start : start + len(pieces)] = before + 1
    task = translation(model=model)
    random = np.random.default_rng(3)
    shapes = nn.unbox(jax.eval_shape(task.init, jax.random.key(0)))
    params = jax.tree.map(lambda a: random.normal(0, 0.2, a.shape).astype(a.dtype), shapes)

    @jax.jit
    def sums(params, batch):
        def total(params):
            losses = task.loss(params, batch, jax.random.key(0))
            return losses["loss"], losses["weight"]

        return jax.value_and_grad(total, has_aux=True)(params)

    (loss, weight), gradient = sums(params, single)
    several, packed_gradient = sums(params, packed)
    np.testing.assert_allclose(several[0], loss, rtol=1e-5)
    assert several[1] == weight == sum(len(p[1]) + 1 for p in pairs)
    largest = max(float(jnp.abs(a).max()) for a in jax.tree.leaves(gradient))
    for a, b in zip(jax.tree.leaves(packed_gradient), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6 * largest)
