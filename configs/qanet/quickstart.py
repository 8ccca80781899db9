"""QANet on passages that the project invents: minutes on a CPU, nothing to download.

  python -m launch.train --config configs/qanet/quickstart.py

Train, dev and test have no name in common, so that the answers must be read. The model is the
paper's, narrower and with fewer blocks; words that it does not know it reads by their characters.
"""

from common_jax.training.config import to_config_dict
from qanet_jax.config import Config, DataConfig, ModelConfig


def get_config():
    config = to_config_dict(
        Config(
            data=DataConfig(source="generated", examples=8000, heldout=500),
            model=ModelConfig(word_rows=450),
        )
    )
    config.data.batch_size = 32
    config.data.max_shapes = 3
    config.model.dim = 64
    config.model.num_heads = 4
    config.model.word_dim = 64
    config.model.char_dim = 32
    config.model.embedding_convs = 2
    config.model.model_blocks = 2
    config.model.survival = 1.0

    config.optimizer.learning_rate = 2e-3
    config.optimizer.warmup_steps = 100
    config.optimizer.cooldown_start = 300
    config.optimizer.cooldown_steps = 500
    config.train.steps = 800
    config.train.ema_decay = 0.99
    config.train.evaluate_every = 400
    config.train.checkpoint_every = 400
    return config
