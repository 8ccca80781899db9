"""QANet on passages that the project invents: minutes on a CPU, nothing to download.

  python -m launch.train --config configs/qanet/quickstart.py

Train, dev and test have no name in common, so that the answers must be read. The model is the
paper's, narrower and with fewer blocks; words that it does not know it reads by their characters.
"""

from common_jax.config import to_config_dict
from qanet_jax.config import Config, DataConfig, ModelConfig


def get_config():
    config = to_config_dict(
        Config(
            data=DataConfig(source="generated", examples=6000, heldout=300),
            model=ModelConfig(word_rows=450),
        )
    )
    config.data.batch_size = 32
    config.data.max_shapes = 1
    config.model.dim = 64
    config.model.num_heads = 4
    config.model.word_dim = 64
    config.model.char_dim = 32
    config.model.embedding_convs = 2
    config.model.model_blocks = 1
    config.model.final_norm = True
    config.model.embedding_std = 2.0
    # there are as many passages as one likes: nothing to forget
    config.model.word_dropout = 0.0
    config.model.char_dropout = 0.0
    config.model.dropout = 0.0
    config.model.survival = 1.0

    config.optimizer.learning_rate = 3e-3
    config.optimizer.warmup_steps = 50
    config.optimizer.cooldown_start = 180
    config.optimizer.cooldown_steps = 220
    config.train.steps = 400
    config.train.ema_decay = 0.98
    config.train.evaluate_every = 400
    config.train.checkpoint_every = 400
    return config
