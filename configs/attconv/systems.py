"""Systems of Tables 3, 5 and 6 by name, for the config files of this folder: `FILE.py:SYSTEM`.

A new system is an entry in `SYSTEMS`, with its model in a module of `attconv_jax.models`. SYSTEM is
trained as attentive convolution in the paper; SYSTEM-original, for the systems in `ORIGINALS`, with
the optimizer, batch size and word vectors (for some also the model sizes) of its own paper or code.
All other settings are those of the config file.
"""

import tomllib
from collections.abc import Callable
from pathlib import Path
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
from attconv_jax.models.paragraph_vector import ParagraphVector
from attconv_jax.models.recurrent_pooling import RecurrentPooling
from attconv_jax.models.sentence_rank import SentenceRank
from attconv_jax.models.tree_cnn import TreeCNN
from attconv_jax.models.word_by_word import WordByWord
from attconv_jax.models.word_count import WordCount
from common_jax.systems import UnknownSystem, system_config, system_named

TABLES = Path(__file__).parents[1] / "tables" / "attconv"


def attentive(texts: int, **fields: Any) -> PairModel:
    """Attentive convolution between two texts; a single text, a review, attends to itself."""
    single_text: dict[str, Any] = {
        "attention": "intra",
        "energy": "additive",
        "dim": 500,
        "author_length": 180,
    }
    return AttentiveConvolution(**(single_text if texts == 1 else {}) | fields)


# Models, with the sizes of their own papers, or functions from the number of texts to them.
SYSTEMS: dict[str, PairModel | Callable[[int], PairModel]] = {
    "cnn": lambda texts: BiCNN(dim=500 if texts == 1 else 300),
    "light": lambda texts: attentive(texts, source="states", focus="states", beneficiary="states"),
    "advanced": attentive,
    "advanced_intra": lambda texts: attentive(texts, attention="both"),
    "abcnn": AttentivePooling(),
    "apcnn": AttentivePooling(bilinear=True),
    "abcnn1": ABCNN(pooling_attention=False),
    "abcnn2": ABCNN(input_attention=False),
    "abcnn3": ABCNN(),
    "bi_lstm": BiLSTM(),
    "word_by_word": WordByWord(),
    "match_lstm": MatchLSTM(),
    "decomposable": Decomposable(),
    "decomposable_intra": Decomposable(intra=True),
    "nse": NSE(),
    "lstmn": LSTMN(),
    "tree_cnn": TreeCNN(),
    "wordc1": WordCount(),
    "wordc2": WordCount(share_of="first"),
    "bi_gru": BiGRU(),
    "cdssm": CDSSM(),
    "sentence_rank": SentenceRank(),
    "self_attentive": lambda texts: RecurrentPooling(
        attention_dim=350 if texts == 1 else 150, penalty=1.0 if texts == 1 else 0.3
    ),
    "paragraph_vector": ParagraphVector(),
    "lin_bilstm": RecurrentPooling(pooling="max"),
    "lin_cnn": ConvolutionPooling(hidden=512),
    "multichannel_cnn": ConvolutionPooling(channels=2),
    "internal_attention": ConvolutionPooling(pooling="attention"),
}


def _decomposable(config: ml_collections.ConfigDict) -> None:
    """Parikh et al. 2016."""
    config.words.update(trained=False, unknown_rows=100)
    config.model.dropout = 0.2
    config.optimizer.update(name="adagrad", learning_rate=0.05, initial_sum=0.1)
    config.data.batch_size = 4


def _match_lstm(config: ml_collections.ConfigDict) -> None:
    """Wang and Jiang 2016, without their trained vectors of unknown words and without the factor of
    0.95 on the learning rate in each epoch."""
    config.words.trained = False
    config.optimizer.update(name="adamax", learning_rate=1e-3, b2=0.999)
    config.model.dropout = 0.3
    config.data.batch_size = 30


def _nse(config: ml_collections.ConfigDict) -> None:
    """Munkhdalai and Yu 2017."""
    config.optimizer.update(name="adam", learning_rate=3e-4, b2=0.999, clip_norm=15.0, l2=3e-5)
    config.model.dropout = 0.3
    config.data.batch_size = 128


def _self_attentive(config: ml_collections.ConfigDict) -> None:
    """The sizes of Lin et al. 2017; the optimizer is that of the config file."""
    config.model.update(rows=30, hidden=3000 if config.data.format == "texts" else 4000)


def _multichannel_cnn(config: ml_collections.ConfigDict) -> None:
    """Kim 2014."""
    config.optimizer.update(name="adadelta", learning_rate=1.0, b2=0.95, eps=1e-6, output_norm=3.0)
    config.model.dropout = 0.5
    config.data.batch_size = 50


ORIGINALS: dict[str, Callable[[ml_collections.ConfigDict], None]] = {
    "decomposable": _decomposable,
    "decomposable_intra": _decomposable,
    "match_lstm": _match_lstm,
    "nse": _nse,
    "self_attentive": _self_attentive,
    "multichannel_cnn": _multichannel_cnn,
}


def config_of(
    name: str, data: DataConfig, words: WordsConfig, **fields: Any
) -> ml_collections.ConfigDict:
    """The config of SYSTEM or SYSTEM-original, to be edited and then passed to `finish`.

    Args:
      fields: values of the section `model`; ignored by models that lack them.

    Raises:
      UnknownSystem: for an unknown name.
    """
    system, dash, original = name.partition("-")
    entry = system_named(SYSTEMS, system)
    model = entry if isinstance(entry, PairModel) else entry(data.texts)
    if isinstance(model, ConvolutionPooling) and not model.hidden:  # logits above the pooled text
        fields.pop("hidden", None)
    if dash and (original != "original" or system not in ORIGINALS):
        originals = [f"{system}-original" for system in ORIGINALS]
        listed = f"SYSTEM, or SYSTEM-original of {', '.join(ORIGINALS)}"
        raise UnknownSystem.of(name, originals, listed)
    return system_config(Config(data=data, words=words, model=model), name, **fields)


def finish(
    config: ml_collections.ConfigDict, table: str = "", source: str = ""
) -> ml_collections.ConfigDict:
    """Adds the settings of SYSTEM-original, with the same number of epochs, and the paper's result.

    Args:
      table: the file of tables/attconv with the result, such as "table3"; "" for none.
      source: the paper's table, and the differences from it.
    """
    system, dash, _ = config.paper.system.partition("-")

    # The published batch size, with steps for the same number of examples.
    if dash:
        before = config.data.batch_size
        ORIGINALS[system](config)
        train = config.train
        optimizer = config.optimizer
        for name in ("steps", "evaluate_every", "checkpoint_every"):
            train[name] = train[name] * before // config.data.batch_size
        optimizer.warmup_steps = optimizer.warmup_steps * before // config.data.batch_size

    # The paper's result for this system.
    rows = tomllib.loads((TABLES / f"{table}.toml").read_text("utf-8"))["rows"] if table else []
    for row in rows:
        if row.get("system") == system and "published" in row and not config.paper.results:
            metric = config.train.best_metric
            config.paper.update(
                results=(f"{row['name']}: test {metric} {row['published'][metric]}",), source=source
            )
    return config
