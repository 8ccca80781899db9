"""AttentiveConvNet on SQuAD-AnSS with small vectors: nine minutes on one CPU core.

  python -m launch.train --config configs/attconv/squad_anss_small.py --config.data.dir=FOLDER \
    --config.data.vectors=glove.6B.50d.txt

FOLDER holds train-v1.1.json and dev-v1.1.json (rajpurkar.github.io/SQuAD-explorer), plain or .gz.
Dev is held out of train by article; SQuAD's dev is the test. Precision at 1 on it: 83.0 with the
first 9,163 rows of glove.6B, against 79.5 by counting common words (docs/results/attconv/table5).
"""

from attconv_jax.config import DataConfig, WordsConfig
from configs.attconv.systems import config_of, finish


def get_config(system="advanced"):
    data = DataConfig(
        format="ranking",
        dir="data/squad",
        train="train-v1.1.json",
        test="dev-v1.1.json",
        holdout_size=10_000,
        labels="no,yes",
        ignored_labels="",
        max_length=1000,  # of a sentence; the longest that Punkt makes has 437 words
        batch_size=30,
        vectors="data/glove/glove.6B.50d.txt",
    )

    words = WordsConfig(dim=50, rows=60_000, unknown_rows=1000, rule="english")
    config = config_of(system, data, words, tanh_gain=0.2)
    config.optimizer.warmup_steps = 100
    config.train.update(
        best_metric="precision_at_1",
        steps=5000,
        ema_decay=0.999,
        evaluate_every=1000,
        checkpoint_every=1000,
    )
    return finish(config, "table5", "Table 5, on a test of twice as many pairs")
