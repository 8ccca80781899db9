"""A small 2D-CSAN that translates English numbers, dates, times and prices into German.

python -m launch.train --config configs/csan/quickstart.py
"""

from common_jax.config import to_config_dict
from configs.csan import systems
from csan_jax.config import Config, DataConfig


def get_config(system: str = ""):
    config = to_config_dict(Config(data=DataConfig(source="generated", examples=60_000)))
    config.data.update(
        white_space="keep",
        source_language="en",
        target_language="de",
        holdout_size=500,
        vocab_size=800,
        max_length=64,
        batch_tokens=2048,
        max_shapes=2,
    )

    config.model.update(
        dim=128,
        mlp_dim=512,
        num_heads=4,
        encoder_layers=2,
        decoder_layers=2,
    )
    config.model.encoder_attention.local_layers = 1
    config.model.update(tie="all", unroll=True)

    config.optimizer.update(learning_rate=3e-3, warmup_steps=60)
    config.train.steps = 240
    config.optimizer.cooldown = 0.5
    config.train.update(evaluate_every=120, checkpoint_every=120, log_every=20)
    config.decode.extra_length = 30
    return systems.choose_sized(config, system)
