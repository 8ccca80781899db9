"""QANet on SQuAD v1.1, as in the paper (Yu et al. 2018, section 4.1.1).

  python -m launch.train --config configs/qanet/squad.py --config.data.dir=FOLDER \
    --config.data.vectors=glove.840B.300d.zip

FOLDER holds train-v1.1.json and dev-v1.1.json (rajpurkar.github.io/SQuAD-explorer), plain or .gz;
the vectors are those of nlp.stanford.edu/projects/glove. The paper: dev EM 73.6, F1 82.7 after
150,000 steps of 32; F1 77.0 after 3 hours on a P100. Not yet trained here. `squad.py:SYSTEM`
selects another system (systems.py).
"""

from configs.qanet.systems import config_of
from qanet_jax.config import DataConfig
from qanet_jax.models.base import WordsConfig


def get_config(system="qanet"):
    # all other fields have the defaults of qanet_jax/config.py, which are the paper's
    data = DataConfig(dir="data/squad", vectors="data/glove/glove.840B.300d.zip")
    config = config_of(system, data, WordsConfig(rule="english"))
    config.train.update(
        compute_dtype="bfloat16",
        steps=150_000,
        evaluate_every=2000,
        checkpoint_every=2000,
    )
    config.paper.results = (
        "QANet, 300-d vectors, without augmentation: dev exact_match 73.6 f1 82.7",
        "QANet with augmented data on AddSent: test f1 45.2",
    )
    config.paper.source = "Tables 2 and 6"
    if system == "bidaf":
        _bidaf(config)
    return config


def _bidaf(config):
    """The word vectors, of lower-cased words, and the training of Seo et al. 2017."""
    config.words.dim = 100
    config.data.update(vectors="data/glove/glove.6B.100d.txt", batch_size=60, question_length=30)
    config.optimizer.update(
        name="adadelta", learning_rate=0.5, b2=0.95, eps=1e-6, l2=0.0, clip_norm=0.0
    )
    config.optimizer.update(schedule="constant", warmup="linear", warmup_steps=0)
    config.train.update(ema_decay=0.999, steps=20_000)
    config.paper.update(
        results=("BiDAF: dev exact_match 67.7 f1 77.3",),
        source="Seo et al. 2017, Table 1; QANet's Table 2 has 68.0 and 77.3 on the test",
    )
