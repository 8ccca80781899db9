"""The comparison systems with small sizes, their oracles, and a batch of pairs."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from attconv_jax.models.abcnn import ABCNN
from attconv_jax.models.attentive_pooling import AttentivePooling
from attconv_jax.models.base import PairModel, Text, without_losses
from attconv_jax.models.bi_lstm import BiLSTM
from attconv_jax.models.convolution_pooling import ConvolutionPooling
from attconv_jax.models.decomposable import Decomposable
from attconv_jax.models.match_lstm import MatchLSTM
from attconv_jax.models.recurrent_pooling import RecurrentPooling
from attconv_jax.models.word_by_word import WordByWord
from tests import random_params
from tests.attconv_jax.models import numpy_reference

DIM, LABELS, ROW = 5, 3, 6
LENGTHS = (5, 1, 3, 1), (2, 4, 1, 1)  # of each text; the last pair has a word each
PAIRS = len(LENGTHS[0])

ORACLES = {
    Decomposable: numpy_reference.decomposable,
    BiLSTM: numpy_reference.bi_lstm,
    WordByWord: numpy_reference.word_by_word,
    MatchLSTM: numpy_reference.match_lstm,
    AttentivePooling: numpy_reference.attentive_pooling,
    ABCNN: numpy_reference.abcnn,
    ConvolutionPooling: numpy_reference.convolution_pooling,
    RecurrentPooling: numpy_reference.recurrent_pooling,
}


def draw(shape, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# By table, text and pair: word vectors [T, D].
SENTENCES = [
    [
        [draw((length, DIM), [table, text, n]) for n, length in enumerate(lengths)]
        for text, lengths in enumerate(LENGTHS)
    ]
    for table in range(2)
]
COTANGENT = draw((PAIRS, LABELS), 7)


@dataclasses.dataclass(frozen=True)
class System:
    """A model of so many texts.

    Attributes:
      reach: how many words behind a text's last are read by the convolution of a word in it. They
        are zeros, as `Text` promises.
    """

    model: PairModel
    texts: int = 2
    reach: int = 0
    dtype: Any = jnp.float32

    @property
    def sentences(self):
        """The words that the model reads."""
        return [table[: self.texts] for table in SENTENCES[: 1 + self.model.second_table]]

    @property
    def module(self):
        return self.model.module(LABELS, self.dtype)

    @functools.cached_property
    def parameters(self):
        """Random ones."""
        texts = texts_of(*padded(self.sentences))
        return random_params.parameters(self.module, texts, train=False)

    def oracle(self, tables, params):
        """The answer for one example."""
        return ORACLES[type(self.model)](tables, params, self.model)

    def explain(self, params, words, valid):
        """Logits and the attention of each layer, as arrays of NumPy."""
        return jax.tree.map(np.asarray, _explain(self, params, words, valid))

    def gradients(self, params, words, valid):
        """Logits, further losses, and gradients of the sum of both, logits times `COTANGENT`: those
        of parameters and of words."""
        return jax.tree.map(np.asarray, _gradients(self, params, words, valid))

    @functools.cached_property
    def explained(self):
        """The result of `explain` for the batch."""
        return self.explain(self.parameters, *padded(self.sentences))

    @functools.cached_property
    def derived(self):
        """The result of `gradients` for the batch."""
        return self.gradients(self.parameters, *padded(self.sentences))


def texts_of(words, valid):
    """From words [tables, texts, B, T, D] and valid [texts, B, T]."""
    second = words[1] if len(words) == 2 else [None] * len(valid)
    return [
        Text(real.astype(jnp.int32), real, x, other, {}, {})
        for real, x, other in zip(valid, words[0], second, strict=True)
    ]


@functools.partial(jax.jit, static_argnums=0)
def _explain(system, params, words, valid):
    logits, layers = system.module.apply(
        {"params": params}, texts_of(words, valid), method="explain"
    )
    return logits, [[tuple(each) for each in layer] for layer in layers]


@functools.partial(jax.jit, static_argnums=0)
def _gradients(system, params, words, valid):
    def total(params, words):
        texts = texts_of(words.astype(system.dtype), valid)
        output = system.module.apply({"params": params}, texts, train=False)
        logits, losses = without_losses(output)
        further = sum(each.sum() for each in losses.values())
        return jnp.vdot(logits, COTANGENT) + further, (logits, losses)

    gradients, (logits, losses) = jax.grad(total, argnums=(0, 1), has_aux=True)(params, words)
    return logits, losses, gradients


def padded(sentences, garbage=0.0, after=0):
    """Words [tables, texts, B, T, D] and valid [texts, B, T]; `after` so many places behind the
    words there is garbage of this size instead of zeros."""
    shape = len(sentences), len(sentences[0]), len(sentences[0][0]), ROW
    words, valid = np.zeros((*shape, DIM), np.float32), np.zeros(shape[1:], bool)
    for table, text, row in np.ndindex(*shape[:3]):
        own = sentences[table][text][row]
        valid[text, row, : len(own)] = True
        words[table, text, row, : len(own)] = own
        rest = words[table, text, row, len(own) + after :]
        rest[...] = garbage * draw(rest.shape, [table, text, row, 1])
    return words, valid


def each(sentences, change):
    """The sentences with each text [T, D] changed."""
    return [[[change(x) for x in text] for text in table] for table in sentences]


def row_of(sentences, at):
    """An example in float64, as the oracles take it."""
    return [[text[at].astype(np.float64) for text in table] for table in sentences]


SELF_ATTENTIVE = {"dim": 3, "rows": 2, "attention_dim": 6, "hidden": 7}
CONVOLUTIONS = {"dim": 2, "widths": "1, 2,3"}
YIN = {"dim": 4, "filter_width": 3, "max_words": 3, "layers": 1}
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
}
WITHOUT_ATTENTION = "bi_lstm", "bcnn", "multichannel_cnn", "lin_cnn", "lin_bilstm"
