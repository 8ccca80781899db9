"""Systems of Tables 3, 5 and 6 by name, for the config files of this folder: `FILE.py:SYSTEM`.

A further system is an entry of `SYSTEMS`, and its model a module of `attconv_jax.models`.
"""

from collections.abc import Callable
from typing import Any

import ml_collections

from attconv_jax.config import Config, DataConfig, WordsConfig
from attconv_jax.models.attentive_convolution import AttentiveConvolution
from attconv_jax.models.base import PairModel
from attconv_jax.models.bi_cnn import BiCNN
from common_jax.config import system_config, system_named


def attentive(texts: int, **fields: Any) -> PairModel:
    """Attentive convolution between two texts; a single one attends to itself."""
    return AttentiveConvolution(**({"attention": "intra"} if texts == 1 else {}) | fields)


# From the number of texts of an example to the paper's model.
SYSTEMS: dict[str, Callable[[int], PairModel]] = {
    "cnn": lambda texts: BiCNN(),
    "light": lambda texts: attentive(texts, source="states", focus="states", beneficiary="states"),
    "advanced": attentive,
    "advanced_intra": lambda texts: attentive(texts, attention="both"),
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
