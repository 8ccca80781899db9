"""AttentiveConvNet on SNLI, as in the paper (Yin & Schütze 2017, section 4.1).

  python -m launch.train --config configs/attconv/snli.py:advanced_intra \
    --config.data.dir=FOLDER --config.data.vectors=glove.840B.300d.zip

FOLDER holds snli_1.0_train.jsonl and snli_1.0_test.jsonl (nlp.stanford.edu/projects/snli). The
checkpoint is selected on pairs held out of train, not on SNLI's dev or test. Systems:
"cnn" (the paper's bi-CNN: test accuracy 80.3), "light" (86.3), "advanced" (87.8) and
"advanced_intra" (88.4); the ensemble of five of these has 89.3. Not trained on all of SNLI here.
"""

from attconv_jax.config import DataConfig, WordsConfig
from configs.attconv.systems import config_of


def get_config(system="advanced_intra"):
    # all other fields have the defaults of attconv_jax/config.py, which are the paper's
    data = DataConfig(
        dir="data/snli",
        train="snli_1.0_train.jsonl",
        test="snli_1.0_test.jsonl",
        holdout_size=10_000,
        vectors="data/glove/glove.840B.300d.zip",
    )
    config = config_of(system, data, WordsConfig(unknown_rows=100))
    config.train.steps = 110_000  # ten epochs of 549,367 pairs
    config.train.evaluate_every = 2750
    config.train.checkpoint_every = 2750
    config.paper.results = (
        "bi-CNN: test accuracy 80.3",
        "light: test accuracy 86.3",
        "advanced: test accuracy 87.8",
        "advanced & intra: test accuracy 88.4",
    )
    config.paper.source = "Table 3, SNLI's test"
    return config
