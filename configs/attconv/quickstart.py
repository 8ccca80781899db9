"""AttentiveConvNet on generated entailment pairs: minutes on a CPU, no download.

  python -m launch.train --config configs/attconv/quickstart.py

Statements in train do not occur in dev or test, and labels are correct by construction. The model
is the paper's "advanced & intra", narrower, with phrases of five words. Other systems of
configs/attconv/systems.py are selected by name, as quickstart.py:cnn.
"""

from attconv_jax.config import DataConfig, WordsConfig
from common_jax.config import OptimizerConfig, to_config_dict
from configs.attconv.systems import config_of, finish


def get_config(system="advanced_intra"):
    optimizer = OptimizerConfig(
        learning_rate=4e-3,
        schedule="constant",
        warmup_steps=50,
        cooldown=0.6,
    )
    data = DataConfig(source="generated", examples=20_000, holdout_size=1000, max_shapes=1)
    words = WordsConfig(dim=64, rows=200, rule="english")
    config = config_of(system, data, words, dim=128, filter_width=5, phrase_width=5, dropout=0.0)
    config.optimizer.update(to_config_dict(optimizer))
    config.data.batch_size = 64
    config.train.update(steps=1000, evaluate_every=500, checkpoint_every=500)
    return finish(config)
