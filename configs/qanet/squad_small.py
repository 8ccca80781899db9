"""A small QANet on SQuAD v1.1 for a CPU: an hour on two cores.

  python -m launch.train --config configs/qanet/squad_small.py --config.data.dir=FOLDER \
    --config.data.vectors=glove.6B.50d.txt

FOLDER holds train-v1.1.json and dev-v1.1.json, plain or .gz; glove.6B is of
nlp.stanford.edu/projects/glove. Half the paper's width, fewer blocks and convolutions, words of 50
numbers instead of 300; a rate that falls to zero, since an hour is not enough for a constant one.
"""

from common_jax.training.config import to_config_dict
from qanet_jax.config import Config, DataConfig


def get_config():
    data = DataConfig(dir="data/squad", vectors="data/glove/glove.6B.50d.txt")
    config = to_config_dict(Config(data=data))
    config.data.max_shapes = 5
    config.model.word_dim = 50
    config.model.char_dim = 32
    config.model.dim = 64
    config.model.num_heads = 4
    config.model.embedding_convs = 2
    config.model.model_convs = 1
    config.model.model_blocks = 3
    config.model.dropout = 0.05

    config.optimizer.warmup_steps = 500
    config.optimizer.cooldown_start = 2000
    config.optimizer.cooldown_steps = 4000
    config.train.steps = 6000
    config.train.ema_decay = 0.999
    config.train.evaluate_every = 2000
    config.train.checkpoint_every = 1000
    return config
