"""AttentiveConvNet on labelled texts of one's own, without word vectors: minutes on a CPU.

  python -m launch.train --config configs/attconv/texts.py --config.data.train=reviews.csv

The files are tables in any format, whose columns and labels are inferred (docs/data.md). Without
--config.data.dev and --config.data.test both are held out of train. `texts.py:SYSTEM` selects
another system for one text (systems.py).
"""

from attconv_jax.config import DataConfig, WordsConfig
from configs.attconv.systems import config_of, finish

INFERRED = "dir,columns,labels,stratified,holdout_size,words.rows"


def get_config(system="light", format="texts", labels="1,2,3,4,5", inferred=INFERRED):
    data = DataConfig(
        format=format,
        dir="data",
        train="train.csv",
        labels=labels,
        inferred=inferred,
        holdout_size=500,
        max_length=1000,
        batch_size=32,
    )
    words = WordsConfig(dim=100, rows=30_000, unknown_rows=100, rule="unicode")
    config = config_of(system, data, words, dim=100, hidden=100, tanh_gain=0.2, dropout=0.1)
    config.optimizer.update(name="adam", learning_rate=1e-3, b2=0.999, warmup_steps=50)
    config.optimizer.cooldown = 0.5
    config.train.update(steps=2000, evaluate_every=200, checkpoint_every=200, patience=5)
    return finish(config)
