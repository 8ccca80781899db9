"""AttentiveConvNet on SQuAD-AnSS: the sentence that answers a question (section 4.2).

  python -m launch.train --config configs/attconv/squad_anss.py --config.data.dir=FOLDER \
    --config.data.vectors=glove.840B.300d.zip

FOLDER holds train-v1.1.json and dev-v1.1.json (rajpurkar.github.io/SQuAD-explorer), plain or .gz.
Dev is held out of train by article; SQuAD's dev is the test. The paper's precision at 1: 87.42
light, 88.27 advanced, 88.54 with intra-attention, on a test of twice as many pairs as exist.
"""

from attconv_jax.config import DataConfig, WordsConfig
from configs.attconv.systems import config_of, finish


def get_config(system="advanced"):
    data = DataConfig(
        format="ranking",
        dir="data/squad",
        train="train-v1.1.json",
        test="dev-v1.1.json",
        holdout_size=48_307,  # pairs, the paper's dev
        labels="no,yes",
        ignored_labels="",
        max_length=1000,  # of a sentence; the longest that Punkt makes has 437 words
        batch_size=30,
        vectors="data/glove/glove.840B.300d.zip",
    )

    words = WordsConfig(rows=110_000, unknown_rows=100, rule="english")
    config = config_of(system, data, words)
    config.train.update(
        best_metric="precision_at_1",
        steps=26_000,  # ten epochs of 78,000 questions
        evaluate_every=1300,
        checkpoint_every=1300,
    )
    return finish(config, "table5", "Table 5, on a test of twice as many pairs")
