"""AttentiveConvNet on SNLI, as in the paper (Yin & Schütze 2017, section 4.1).

  python -m launch.train --config configs/attconv/snli.py:advanced_intra \
    --config.data.dir=FOLDER --config.data.vectors=glove.840B.300d.zip

FOLDER holds snli_1.0_train.jsonl and snli_1.0_test.jsonl (nlp.stanford.edu/projects/snli). The
checkpoint is selected on pairs held out of train, not on SNLI's dev or test. Systems are those of
configs/attconv/systems.py for two texts; tree_cnn reads the parses that these files have. The
ensemble of five of "advanced_intra" has 89.3 in the paper. Not trained on all of SNLI here.
"""

from attconv_jax.config import DataConfig, WordsConfig
from configs.attconv.systems import config_of, finish


def get_config(system="advanced_intra"):
    # all other fields have the defaults of attconv_jax/config.py, which are the paper's
    data = DataConfig(
        dir="data/snli",
        train="snli_1.0_train.jsonl",
        test="snli_1.0_test.jsonl",
        holdout_size=10_000,
        vectors="data/glove/glove.840B.300d.zip",
    )
    config = config_of(system, data, WordsConfig(unknown_rows=100, rule="english"))
    config.train.update(
        steps=110_000,  # ten epochs of 549,367 pairs
        evaluate_every=2750,
        checkpoint_every=2750,
    )
    return finish(config, "table3", "Table 3")
