"""2D-CSAN on Multi30k English-German captions (Elliott et al. 2016), task 1, raw text.

  python -m launch.train --config configs/csan/multi30k.py --config.data.dir=FOLDER

FOLDER holds train, val and test_2016_flickr, each .en and .de, plain or .gz, from data/task1/raw
of github.com/multi30k/dataset. The model is small enough for a CPU: 3 + 3 layers of 256, one joint
vocabulary of 8,000 pieces, three-way tied embeddings. With batching=buckets: test sacreBLEU
35.5 (seed 0, beam 4) in half an hour on two CPU cores.
"""

from common_jax.config import to_config_dict
from configs.csan import systems
from csan_jax.config import Config


def get_config(system: str = ""):
    config = to_config_dict(Config())
    config.data.dir = "data/multi30k"
    config.data.dev = "val"
    config.data.test = "test_2016_flickr"
    config.data.vocab_size = 8000
    # One shape of batch, hence one compilation; no pair has more than 64 pieces on a side.
    config.data.max_length = 64
    config.data.batching = "packed"
    config.data.row_tokens = 64
    config.data.batch_tokens = 512

    config.model.dim = 256
    config.model.mlp_dim = 1024
    config.model.num_heads = 4
    config.model.encoder_layers = 3
    config.model.decoder_layers = 3
    config.model.encoder_attention.local_layers = 2
    config.model.tie = "all"
    config.model.unroll = True

    # Many small steps with a constant rate, then linear decay to zero: some 35 minutes on two CPU
    # cores, too few steps for a decay with 1/sqrt(step).
    config.optimizer.schedule = "constant"
    config.optimizer.learning_rate = 1e-3
    config.optimizer.warmup_steps = 400
    config.train.steps = 6000
    config.optimizer.cooldown_start = 700
    config.optimizer.cooldown_steps = 5300
    config.train.evaluate_every = 1500
    config.train.checkpoint_every = 1500
    return systems.choose_sized(config, system)
