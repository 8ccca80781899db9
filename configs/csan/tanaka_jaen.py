"""2D-CSAN on short Japanese-English sentences of the Tanaka corpus, tokenised, English lower-cased.

  python -m launch.train --config configs/csan/tanaka_jaen.py --config.data.dir=FOLDER

FOLDER holds train (50,000 pairs) and dev (500), each .ja and .en, plain or .gz, from
github.com/odashi/small_parallel_enja. Dev is the test here, and 500 source sentences are held out
of train for validation; with the repository's own test: --config.data.dev=dev
--config.data.test=test. The text is tokenised, so that BLEU is comparable only with other results
on this text. The model is multi30k.py's. Not run here to the end.
"""

from configs.csan import multi30k


def get_config(system: str = ""):
    config = multi30k.get_config(system)
    config.data.dir = "data/tanaka_jaen"
    config.data.dev = ""
    config.data.holdout_size = 500
    config.data.test = "dev"
    config.data.source_language = "ja"
    config.data.target_language = "en"
    return config
