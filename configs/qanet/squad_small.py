"""A small QANet on SQuAD v1.1 for a CPU: an hour on one core.

  python -m launch.train --config configs/qanet/squad_small.py --config.data.dir=FOLDER \
    --config.data.vectors=glove.6B.50d.txt

FOLDER holds train-v1.1.json and dev-v1.1.json, plain or .gz; glove.6B is from
nlp.stanford.edu/projects/glove. Dev EM 60.3, F1 71.8 with its first 9,163 rows, in 63 minutes
(docs/results/qanet/table2/medium, which lists the differences from the paper's setting).
`squad_small.py:SYSTEM` selects another system (systems.py).
"""

from configs.qanet.systems import config_of
from qanet_jax.config import DataConfig
from qanet_jax.models.base import WordsConfig


def get_config(system="qanet"):
    data = DataConfig(dir="data/squad", vectors="data/glove/glove.6B.50d.txt")
    # no dropout: an example is seen four times at most
    no_dropout = dict(word_dropout=0.0, char_dropout=0.0, dropout=0.0, survival_prob=1.0)
    config = config_of(
        system,
        data,
        WordsConfig(dim=50, rule="english"),
        char_dim=16,
        dim=64,
        num_heads=2,
        embedding_convs=2,
        model_blocks=2,
        unroll=True,
        **no_dropout,
    )
    config.data.max_shapes = 5

    config.optimizer.update(learning_rate=2e-3, warmup_steps=200, cooldown=2 / 3)
    config.train.update(
        steps=12_000,
        ema_decay=0.999,
        evaluate_every=2000,
        checkpoint_every=500,
    )
    config.paper.results = (
        "QANet, 300-d vectors, without augmentation: dev exact_match 73.6 f1 82.7",
        "QANet with augmented data on AddSent: test f1 45.2",
    )
    config.paper.source = "Tables 2 and 6; 150,000 steps of the whole model"
    return config
