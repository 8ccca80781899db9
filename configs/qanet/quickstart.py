"""QANet on generated passages: minutes on a CPU, no download.

  python -m launch.train --config configs/qanet/quickstart.py

Train, dev and test have no names in common, so that answers cannot be memorized. The model is the
paper's, narrower and with fewer blocks; unknown words are represented by their characters.
`quickstart.py:SYSTEM` selects another system (systems.py).
"""

from configs.qanet.systems import config_of
from qanet_jax.config import DataConfig
from qanet_jax.models.base import WordsConfig


def get_config(system="qanet"):
    # no dropout: enough generated passages not to overfit
    no_dropout = dict(word_dropout=0.0, char_dropout=0.0, dropout=0.0, survival_prob=1.0)
    config = config_of(
        system,
        DataConfig(source="generated", examples=6000, holdout_size=300),
        WordsConfig(dim=64, rows=450, rule="english"),
        char_dim=32,
        dim=64,
        num_heads=4,
        embedding_convs=2,
        model_blocks=1,
        embedding_std=2.0,
        **no_dropout,
    )
    config.data.update(batch_size=32, max_shapes=1)

    config.optimizer.update(learning_rate=3e-3, warmup_steps=50, cooldown=0.55)
    config.train.update(
        steps=400,
        ema_decay=0.98,
        evaluate_every=400,
        checkpoint_every=400,
    )
    return config
