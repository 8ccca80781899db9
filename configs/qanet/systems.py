"""Systems compared in the paper, by name, for the config files of this folder: `FILE.py:SYSTEM`.

  python -m launch.train --config configs/qanet/squad.py:no_convolution

All systems use the config's words, vectors, characters, schedule and batches.
"""

from typing import Any

import ml_collections

from common_jax.systems import system_config, system_named
from qanet_jax.config import Config, DataConfig
from qanet_jax.models.base import ReaderModel, WordsConfig
from qanet_jax.models.bidaf import BiDAF
from qanet_jax.models.candidates import Candidates
from qanet_jax.models.qanet import QANet
from qanet_jax.models.rnn import RecurrentReader

SYSTEMS: dict[str, ReaderModel] = {
    "qanet": QANet(),
    # Table 5: dev EM 70.8 and F1 80.0, 72.2 and 81.4, 72.9 and 82.0; QANet has 73.6 and 82.7
    "no_convolution": QANet(convolution="none"),
    "no_attention": QANet(self_attention=False),
    "ordinary_convolution": QANet(convolution="ordinary"),
    # Tables 3 and 8
    **{f"rnn{layers}": RecurrentReader(lstm_layers=layers) for layers in (1, 2, 3)},
    "bidaf": BiDAF(),
    # Table 7
    "random": Candidates(choice="random"),
    "classifier": Candidates(choice="classifier"),
}


def config_of(
    system: str, data: DataConfig, words: WordsConfig | None = None, **fields: Any
) -> ml_collections.ConfigDict:
    """The config of a system on some data.

    Args:
      system: a name in `SYSTEMS`.
      words: None is the default.
      **fields: values of the section `model`; ignored by systems that lack them.

    Raises:
      UnknownSystem: for an unknown name.
    """
    model = system_named(SYSTEMS, system)
    return system_config(
        Config(model=model, data=data, words=words or WordsConfig()), system, **fields
    )
