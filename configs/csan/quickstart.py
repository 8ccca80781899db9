"""A small 2D-CSAN that translates English numbers, dates, times and prices into German.

python -m launch.train --config configs/csan/quickstart.py
"""

from common_jax.config import to_config_dict
from configs.csan import systems
from csan_jax.config import Config, DataConfig


def get_config(system: str = ""):
    config = to_config_dict(Config(data=DataConfig(source="generated", examples=60_000)))
    config.data.white_space = "keep"
    config.data.source_language = "en"
    config.data.target_language = "de"
    config.data.holdout_size = 500
    config.data.vocab_size = 800
    config.data.max_length = 64
    config.data.batch_tokens = 2048
    config.data.max_shapes = 2

    config.model.dim = 128
    config.model.mlp_dim = 512
    config.model.num_heads = 4
    config.model.encoder_layers = 2
    config.model.decoder_layers = 2
    config.model.encoder_attention.local_layers = 1
    config.model.tie = "all"
    config.model.unroll = True

    config.optimizer.learning_rate = 3e-3
    config.optimizer.warmup_steps = 60
    config.train.steps = 240
    config.optimizer.cooldown = 0.5
    config.train.evaluate_every = 120
    config.train.checkpoint_every = 120
    config.train.log_every = 20
    config.decode.extra_length = 30
    return systems.choose_sized(config, system)
