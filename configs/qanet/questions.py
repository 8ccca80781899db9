"""A small QANet on questions of one's own, without word vectors: half an hour on one CPU core.

  python -m launch.train --config configs/qanet/questions.py --config.data.train=questions.jsonl

The files are tables in any format, or JSON of SQuAD's form (docs/data.md). Without
--config.data.dev passages with 500 questions are held out of train. Word vectors are trained; with
a file of GloVe's, and words.rows=0 and words.dim to match, readers are better. The model of
squad_small.py; `questions.py:SYSTEM` selects another system (systems.py).
"""

from configs.qanet import squad_small


def get_config(system="qanet"):
    config = squad_small.get_config(system)
    config.data.update(dir="data", train="train.jsonl", dev="", vectors="")
    config.data.inferred = "dir,columns,holdout_size,words.rows"
    config.words.update(dim=100, rows=20_000, rule="unicode")
    config.train.update(steps=4000, evaluate_every=1000, patience=3)
    config.paper.update(results=(), source="")
    return config
