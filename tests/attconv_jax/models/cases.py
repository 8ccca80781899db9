"""The comparison systems with small sizes, their oracles, and a batch of pairs."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attconv_jax.data.text import TEXTS
from attconv_jax.models.abcnn import ABCNN
from attconv_jax.models.attentive_pooling import AttentivePooling
from attconv_jax.models.base import POOLED, PairModel, Text, without_losses
from attconv_jax.models.bi_gru import BiGRU
from attconv_jax.models.bi_lstm import BiLSTM
from attconv_jax.models.cdssm import CDSSM
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from attconv_jax.models.decomposable import Decomposable
from attconv_jax.models.lstmn import LSTMN
from attconv_jax.models.match_lstm import MatchLSTM
from attconv_jax.models.nse import NSE
from attconv_jax.models.recurrent_pooling import RecurrentPooling
from attconv_jax.models.sentence_rank import SentenceRank
from attconv_jax.models.tree_cnn import TreeCNN
from attconv_jax.models.word_by_word import WordByWord
from attconv_jax.models.word_count import WordCount
from common_jax.inputs import columns_of, padded_inputs
from tests import random_params
from tests.attconv_jax.models import numpy_reference
from tests.attconv_jax.models.numpy_reference import Written
from tests.random_params import normal

DIM, LABELS, ROW = 5, 3, 6
LENGTHS = (5, 1, 3, 1), (2, 4, 1, 1)  # of each text; in the last pair both have one word
PAIRS = len(LENGTHS[0])


# Word vectors [T, D], by table, text and pair.
SENTENCES = [
    [
        [normal(length, DIM, seed=[table, text, n]) for n, length in enumerate(lengths)]
        for text, lengths in enumerate(LENGTHS)
    ]
    for table in range(2)
]
COTANGENT = normal(PAIRS, LABELS, seed=7)

# A word is identified by the signs of its vector's first numbers, some by several patterns.
VOCABULARY = (
    *("a", "no", "antidisestablishmentarianism", "men", "sleep", "sleeps", "the", "no"),
    *("7", "-", "aaaa", "man", "élève", "men", "grass", "no"),
)
# Parses by the number of words.
PARSES = (
    "",
    "{}",
    "( {} {} )",
    "( {} ( {} {} ) )",
    "( ( ( {} {} ) {} ) {} )",
    "( ( {} {} ) ( {} ( {} {} ) ) )",
)


def spelled(vectors):
    """The words with these vectors."""
    return [VOCABULARY[int((x[:4] > 0) @ (1, 2, 4, 8))] for x in vectors]


@dataclasses.dataclass(frozen=True)
class System:
    """A model for a number of texts.

    Attributes:
      reach: number of positions after a text's last word that its convolution reads. They are
        zeros, as `Text` specifies.
      reads_vectors: whether the model reads word vectors, and not only spellings.
      parses: of texts, by their number of words.
    """

    model: PairModel
    texts: int = 2
    reach: int = 0
    dtype: Any = jnp.float32
    labels: int = LABELS
    reads_vectors: bool = True
    parses: tuple = dataclasses.field(default=PARSES, compare=False)

    @property
    def sentences(self):
        return [table[: self.texts] for table in SENTENCES[: 1 + self.model.second_table]]

    @property
    def module(self):
        return self.model.module(self.labels, self.dtype)

    @property
    def columns(self):
        return columns_of(self.model.inputs, TEXTS[: self.texts])

    @property
    def cotangent(self):
        return COTANGENT[:, : self.labels]

    @functools.cached_property
    def parameters(self):
        words, valid = padded(self.sentences)
        texts = self.texts_of(words, valid, self.inputs(words, valid))
        return random_params.parameters(self.module, texts, train=False)

    def written(self, vectors):
        words = spelled(vectors)
        return Written(words, self.parses[len(words)].format(*words))

    def inputs(self, words, valid):
        examples = []
        for at in range(PAIRS if self.columns else 0):
            arrays = {}
            texts = {
                name: self.written(x[at, real[at]])
                for name, x, real in zip(TEXTS, words[0], valid, strict=False)
            }
            notes = {name: {"binary_parse": text.parse} for name, text in texts.items()}
            for name, text, one in self.columns:
                if not text:
                    array = one.encode([x.words for x in texts.values()], [*notes.values()])
                elif texts[text].words:
                    array = one.encode(texts[text].words, notes[text])
                else:
                    array = np.zeros((0, one.width), np.int32)
                arrays[name] = array
            examples.append(arrays)
        return padded_inputs(self.columns, examples, PAIRS, dict.fromkeys(TEXTS, ROW))

    def texts_of(self, words, valid, inputs):
        """The `Text`s of words [tables, texts, B, T, D] and valid [texts, B, T]."""
        second = words[1] if len(words) == 2 else [None] * len(valid)
        of = lambda text: {c.input.key: inputs[c.name] for c in self.columns if c.text == text}
        return [
            Text(
                real.astype(jnp.int32), real, x, other, of(name), of(""), words[0].reshape(-1, DIM)
            )
            for name, real, x, other in zip(
                TEXTS[: self.texts], valid, words[0], second, strict=True
            )
        ]

    def oracle(self, tables, params):
        texts = [[self.written(words) for words in tables[0]]] if self.columns else []
        oracle = getattr(numpy_reference, type(self.model).__module__.rpartition(".")[2])
        return oracle(tables, params, self.model, *texts)

    def gradients(self, params, words, valid):
        """Logits, further losses, and the gradients of sum(logits * cotangent) plus the losses with
        respect to parameters and words."""
        results = _gradients(self, params, words, valid, self.inputs(words, valid))
        return jax.tree.map(np.asarray, results)

    @property
    def garbled(self):
        """Its sentences, padded with large numbers where no convolution reads zeros."""
        return padded(self.sentences, 1e6, after=self.reach)

    @functools.cached_property
    def explained(self):
        """Logits and the attention of each layer, as NumPy arrays."""
        results = _explain(self, self.parameters, *self.garbled, self.inputs(*self.garbled))
        return jax.tree.map(np.asarray, results)

    @functools.cached_property
    def derived(self):
        return self.gradients(self.parameters, *self.garbled)


@functools.partial(jax.jit, static_argnums=0)
def _explain(system, params, words, valid, inputs):
    texts = system.texts_of(words, valid, inputs)
    logits, layers = system.module.apply({"params": params}, texts, method="explain")
    return logits, [[tuple(each) for each in layer] for layer in layers]


@functools.partial(jax.jit, static_argnums=0)
def _gradients(system, params, words, valid, inputs):
    def total(params, words):
        texts = system.texts_of(words.astype(system.dtype), valid, inputs)
        output = system.module.apply({"params": params}, texts, train=False)
        logits, losses = without_losses(output)
        further = sum(each.sum() for each in losses.values())
        return jnp.vdot(logits, system.cotangent) + further, (logits, losses)

    gradients, (logits, losses) = jax.grad(total, argnums=(0, 1), has_aux=True)(params, words)
    return logits, losses, gradients


def padded(sentences, garbage=0.0, after=0):
    """Words [tables, texts, B, T, D] and valid [texts, B, T]; the padding has garbage of this size
    from `after` positions behind the words on, and zeros before."""
    shape = len(sentences), len(sentences[0]), len(sentences[0][0]), ROW
    words, valid = np.zeros((*shape, DIM), np.float32), np.zeros(shape[1:], bool)
    for table, text, row in np.ndindex(*shape[:3]):
        own = sentences[table][text][row]
        valid[text, row, : len(own)] = True
        words[table, text, row, : len(own)] = own
        rest = words[table, text, row, len(own) + after :]
        rest[...] = garbage * normal(*rest.shape, seed=[table, text, row, 1])
    return words, valid


def each(sentences, change):
    """The sentences, with each text [T, D] changed by a function."""
    return [[[change(x) for x in text] for text in table] for table in sentences]


def row_of(sentences, at):
    """An example in float64, as the oracles read it."""
    return [[text[at].astype(np.float64) for text in table] for table in sentences]


def words_of(text, at):
    """A map's rows or columns that are words; all rows of weighted sums."""
    return slice(None) if text == POOLED else slice(LENGTHS[text][at])


SELF_ATTENTIVE = {"dim": 3, "rows": 2, "attention_dim": 6, "hidden": 7}
CONVOLUTIONS = {"dim": 2, "widths": "1, 2,3"}
YIN = {"dim": 4, "filter_width": 3, "max_words": 3, "layers": 1}
SPELLED = {"labels": 2, "reads_vectors": False}
SYSTEMS = {
    "decomposable": System(Decomposable(dim=4)),
    "decomposable_intra": System(Decomposable(dim=4, intra=True, most_distance=2)),
    "bi_lstm": System(BiLSTM(dim=4, hidden=6)),
    "word_by_word": System(WordByWord(dim=4)),
    "match_lstm": System(MatchLSTM(dim=4)),
    "abcnn": System(AttentivePooling(dim=4), reach=1),
    "apcnn": System(AttentivePooling(dim=4, bilinear=True, layers=2, tanh_gain=0.5), reach=1),
    "bcnn": System(ABCNN(**YIN, input_attention=False, pooling_attention=False), reach=2),
    "abcnn1": System(ABCNN(**YIN, pooling_attention=False), reach=2),
    "abcnn2": System(ABCNN(**YIN, input_attention=False), reach=2),
    "abcnn3": System(ABCNN(**YIN | {"layers": 2}), reach=2),
    "multichannel_cnn": System(ConvolutionPooling(**CONVOLUTIONS, channels=2), 1, 1),
    "internal_attention": System(ConvolutionPooling(**CONVOLUTIONS, pooling="attention"), 1, 1),
    "lin_cnn": System(ConvolutionPooling(**CONVOLUTIONS, hidden=4), reach=1),
    "self_attentive": System(RecurrentPooling(**SELF_ATTENTIVE)),
    "self_attentive_review": System(RecurrentPooling(**SELF_ATTENTIVE, penalty=1.0), 1),
    "lin_bilstm": System(RecurrentPooling(**SELF_ATTENTIVE, pooling="max"), 1),
    "nse": System(NSE(hidden=7)),
    "lstmn": System(LSTMN(dim=4)),
    "tree_cnn": System(TreeCNN(dim=4, hidden=6)),
    "bi_gru": System(BiGRU(dim=3, shared_dim=2, most_shared=1)),
    "cdssm": System(CDSSM(dim=4, semantic_dim=3, trigram_rows=11), **SPELLED),
    "sentence_rank": System(SentenceRank(dim=3)),
    "wordc1": System(WordCount(), **SPELLED),
    "wordc2": System(WordCount(share_of="first"), **SPELLED),
}
# One system for each model, with all its parts.
COMPLETE = (
    *("decomposable_intra", "bi_lstm", "word_by_word", "match_lstm", "apcnn", "abcnn3", "nse"),
    *("internal_attention", "self_attentive", "lstmn", "tree_cnn", "bi_gru", "cdssm"),
    "sentence_rank",
)
