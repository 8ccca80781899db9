"""AttentiveConvNet on generated reviews of one to five stars: minutes on a CPU, no download.

  python -m launch.train --config configs/attconv/reviews_small.py:advanced

A review judges several aspects of a place and names the two that determine its stars
(attconv_jax/data/synthetic_reviews.py). The corpus shows whether a model relates distant words; it
is not a measure of quality on real reviews. Systems are those of configs/attconv/systems.py for one
text.
"""

from attconv_jax.config import DataConfig, WordsConfig
from configs.attconv.systems import config_of, finish


def get_config(system="advanced"):
    data = DataConfig(
        format="texts",
        source="generated",
        examples=20_000,
        holdout_size=1000,
        labels="1,2,3,4,5",
        ignored_labels="",
        batch_size=32,
        max_shapes=2,
    )

    words = WordsConfig(dim=50, rows=200, rule="english")
    config = config_of(system, data, words, dim=100, hidden=200, tanh_gain=0.2, dropout=0.0)
    config.optimizer.update(name="adam", learning_rate=2e-3, b2=0.999, warmup_steps=50)
    config.optimizer.cooldown = 0.5
    config.train.update(steps=2000, evaluate_every=500, checkpoint_every=500)
    return finish(config)
