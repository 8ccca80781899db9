"""AttentiveConvNet on entailment pairs that the project invents: minutes on a CPU, no download.

  python -m launch.train --config configs/attconv/quickstart.py

Nothing said of a thing in a place in training is said in dev or test, and every label is true by
construction. The model is the paper's "advanced & intra", narrower, with phrases of five words.
"""

from attconv_jax.config import Config, DataConfig, variant_of
from common_jax.config import OptimizerConfig, to_config_dict


def get_config():
    optimizer = OptimizerConfig(
        learning_rate=4e-3,
        schedule="constant",
        warmup_steps=50,
        cooldown_start=400,
        cooldown_steps=600,
    )
    data = DataConfig(source="generated", examples=20_000, heldout=1000, max_shapes=1)
    config = to_config_dict(
        Config(data=data, model=variant_of("advanced_intra"), optimizer=optimizer)
    )
    config.data.batch_size = 64
    config.model.word_dim = 64
    config.model.word_rows = 200
    config.model.dim = 128
    config.model.filter_width = 5
    config.model.phrase_width = 5
    config.model.dropout = 0.0
    config.train.steps = 1000
    config.train.evaluate_every = 500
    config.train.checkpoint_every = 500
    return config
