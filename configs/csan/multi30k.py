"""2D-CSAN on Multi30k English-German captions (Elliott et al. 2016), task 1, raw text.

  python -m launch.train --config configs/csan/multi30k.py --config.data.dir=FOLDER

FOLDER holds train, val and test_2016_flickr, each .en and .de, plain or .gz, from data/task1/raw
of github.com/multi30k/dataset. The model is small enough for a CPU: 4 + 4 layers of 128, one joint
vocabulary of 8,000 pieces, three-way tied embeddings. Dropout was chosen on dev, with one seed of
2D-CSAN (docs/results/csan/recipe). Test sacreBLEU 39.2 (seed 0, beam 4) in 33 minutes on one CPU
core.
"""

from common_jax.config import to_config_dict
from configs.csan import systems
from csan_jax.config import Config


def get_config(system: str = ""):
    config = to_config_dict(Config())
    config.data.update(
        dir="data/multi30k",
        white_space="keep",  # of the published results
        source_language="en",
        target_language="de",
        dev="val",
        test="test_2016_flickr",
        vocab_size=8000,
        # One shape of batch, hence one compilation; no pair has more than 64 pieces on a side.
        max_length=64,
        batching="packed",
        row_tokens=64,
        batch_tokens=2048,
    )

    config.model.update(
        dim=128,
        mlp_dim=512,
        num_heads=4,
        encoder_layers=4,
        decoder_layers=4,
    )
    config.model.encoder_attention.local_layers = 2
    config.model.update(dropout=0.3, tie="all", unroll=True)

    # A constant rate, then linear decay to zero: too few steps for a decay with 1/sqrt(step).
    config.optimizer.update(schedule="constant", learning_rate=3e-3, warmup_steps=400)
    config.train.steps = 6000
    config.optimizer.cooldown = 5 / 6
    config.train.update(evaluate_every=2000, checkpoint_every=1000)
    return systems.choose_sized(config, system)
