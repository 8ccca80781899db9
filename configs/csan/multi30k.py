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
    config.data.dir = "data/multi30k"
    config.data.white_space = "keep"  # of the published results
    config.data.source_language = "en"
    config.data.target_language = "de"
    config.data.dev = "val"
    config.data.test = "test_2016_flickr"
    config.data.vocab_size = 8000
    # One shape of batch, hence one compilation; no pair has more than 64 pieces on a side.
    config.data.max_length = 64
    config.data.batching = "packed"
    config.data.row_tokens = 64
    config.data.batch_tokens = 2048

    config.model.dim = 128
    config.model.mlp_dim = 512
    config.model.num_heads = 4
    config.model.encoder_layers = 4
    config.model.decoder_layers = 4
    config.model.encoder_attention.local_layers = 2
    config.model.dropout = 0.3
    config.model.tie = "all"
    config.model.unroll = True

    # A constant rate, then linear decay to zero: too few steps for a decay with 1/sqrt(step).
    config.optimizer.schedule = "constant"
    config.optimizer.learning_rate = 3e-3
    config.optimizer.warmup_steps = 400
    config.train.steps = 6000
    config.optimizer.cooldown = 5 / 6
    config.train.evaluate_every = 2000
    config.train.checkpoint_every = 1000
    return systems.choose_sized(config, system)
