"""AttentiveConvNet on a part of SNLI and MultiNLI, with small vectors: minutes on a CPU.

  python -m launch.train --config configs/attconv/snli_small.py:advanced_intra \
    --config.data.dir=FOLDER --config.data.vectors=glove.6B.50d.txt

FOLDER holds snli_1.0_train.jsonl and snli_1.0_dev.jsonl (nlp.stanford.edu/projects/snli), or other
files of pairs, jsonl or tab-separated. The checkpoint is selected on pairs held out of train, and
dev is the test. Accuracy on it with 24,475 pairs of SNLI, 20,000 of MultiNLI and the first 9,163
rows of glove.6B, mean of three seeds, in one to two minutes: "cnn" 64.5 and "light" 68.9 with
--config.optimizer.learning_rate=0.08, "advanced" 69.9 and "advanced_intra" 70.6
(docs/results/attconv/table3).
"""

from attconv_jax.config import DataConfig, WordsConfig
from configs.attconv.systems import config_of, finish


def get_config(system="advanced_intra"):
    data = DataConfig(
        dir="data/snli",
        train="snli_1.0_train.jsonl",
        test="snli_1.0_dev.jsonl",
        examples=44_000,
        holdout_size=1000,
        max_length=100,
        vectors="data/glove/glove.6B.50d.txt",
    )
    words = WordsConfig(dim=50, rows=30_000, unknown_rows=100, rule="english")
    # dropout slows learning, and so few epochs do not need it
    config = config_of(system, data, words, tanh_gain=0.2, dropout=0.0)
    config.optimizer.update(warmup_steps=100, cooldown=0.5)
    config.train.update(
        steps=2200,  # two and a half epochs; more of them overfit
        ema_decay=0.998,
        evaluate_every=440,
        checkpoint_every=440,
    )
    return finish(config, "table3", "Table 3, trained on all of SNLI, on its test and not its dev")
