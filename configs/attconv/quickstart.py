"""AttentiveConvNet on entailment pairs that the project invents: minutes on a CPU, no download.

  python -m launch.train --config configs/attconv/quickstart.py

Nothing said of a thing in a place in training is said in dev or test, and every label is true by
construction.
"""

from attconv_jax.config import Config, DataConfig
from common_jax.training.config import to_config_dict


def get_config():
    data = DataConfig(source="generated", examples=30_000, heldout=1000, max_shapes=1)
    config = to_config_dict(Config(data=data))
    config.model.word_dim = 64
    config.model.word_rows = 200
    config.model.dim = 128
    config.model.attention = "both"
    config.train.steps = 3000
    config.train.evaluate_every = 1000
    config.train.checkpoint_every = 1000
    return config
