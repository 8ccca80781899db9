"""AttentiveConvNet on questions and sentences of one's own, as texts.py.

  python -m launch.train --config configs/attconv/rankings.py --config.data.train=sentences.csv

The sentences of a question are ranked by whether they answer it. `rankings.py:SYSTEM` selects
another system of systems.py.
"""

from configs.attconv import texts


def get_config(system="advanced"):
    fields = {"format": "ranking", "labels": "no,yes", "inferred": "dir,holdout_size,words.rows"}
    config = texts.get_config(system, **fields)
    config.train.best_metric = "precision_at_1"
    return config
