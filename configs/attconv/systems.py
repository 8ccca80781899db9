"""Systems of Tables 3, 5 and 6 by name, for the config files of this folder: `FILE.py:SYSTEM`.

A further system is an entry of `SYSTEMS`, and its model a module of `attconv_jax.models`.
"""

from collections.abc import Callable
from typing import Any

import ml_collections

from attconv_jax.config import Config, DataConfig, WordsConfig
from attconv_jax.models.abcnn import ABCNN
from attconv_jax.models.attentive_convolution import AttentiveConvolution
from attconv_jax.models.attentive_pooling import AttentivePooling
from attconv_jax.models.base import PairModel
from attconv_jax.models.bi_cnn import BiCNN
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
from common_jax.config import system_config, system_named


def attentive(texts: int, **fields: Any) -> PairModel:
    """Attentive convolution between two texts; a single one, a review, attends to itself."""
    own: dict[str, Any] = {
        "attention": "intra",
        "energy": "additive",
        "dim": 500,
        "author_length": 180,
    }
    return AttentiveConvolution(**(own if texts == 1 else {}) | fields)


def abcnn(**fields: Any) -> Callable[[int], PairModel]:
    """Yin et al.'s."""
    return lambda texts: ABCNN(**fields)


# From the number of texts of an example to the model, with the sizes of its own paper.
SYSTEMS: dict[str, Callable[[int], PairModel]] = {
    "cnn": lambda texts: BiCNN(dim=500 if texts == 1 else 300),
    "light": lambda texts: attentive(texts, source="states", focus="states", beneficiary="states"),
    "advanced": attentive,
    "advanced_intra": lambda texts: attentive(texts, attention="both"),
    "abcnn": lambda texts: AttentivePooling(),
    "apcnn": lambda texts: AttentivePooling(bilinear=True),
    "abcnn1": abcnn(pooling_attention=False),
    "abcnn2": abcnn(input_attention=False),
    "abcnn3": abcnn(),
    "bi_lstm": lambda texts: BiLSTM(),
    "word_by_word": lambda texts: WordByWord(),
    "match_lstm": lambda texts: MatchLSTM(),
    "decomposable": lambda texts: Decomposable(),
    "decomposable_intra": lambda texts: Decomposable(intra=True),
    "nse": lambda texts: NSE(),
    "lstmn": lambda texts: LSTMN(),
    "tree_cnn": lambda texts: TreeCNN(),
    "wordc1": lambda texts: WordCount(),
    "wordc2": lambda texts: WordCount(share_of="first"),
    "bi_gru": lambda texts: BiGRU(),
    "cdssm": lambda texts: CDSSM(),
    "sentence_rank": lambda texts: SentenceRank(),
    "self_attentive": lambda texts: RecurrentPooling(
        attention_dim=350 if texts == 1 else 150, penalty=1.0 if texts == 1 else 0.3
    ),
    "lin_bilstm": lambda texts: RecurrentPooling(pooling="max"),
    "lin_cnn": lambda texts: ConvolutionPooling(hidden=512),
    "multichannel_cnn": lambda texts: ConvolutionPooling(channels=2),
    "internal_attention": lambda texts: ConvolutionPooling(pooling="attention"),
}


def config_of(
    system: str, data: DataConfig, words: WordsConfig, **fields: Any
) -> ml_collections.ConfigDict:
    """A config of one of `SYSTEMS`, to be edited.

    Args:
      fields: of `model`; ignored by models that lack them.

    Raises:
      ValueError: for an unknown name.
    """
    model = system_named(SYSTEMS, system)(data.texts)
    return system_config(Config(data=data, words=words, model=model), system, **fields)
