"""2D-CSAN on short Japanese-English sentences of the Tanaka corpus, tokenised, English lower-cased.

  python -m launch.train --config configs/csan/tanaka_jaen.py --config.data.dir=FOLDER

FOLDER holds train (50,000 pairs) and dev (500), each .ja and .en, plain or .gz, from
github.com/odashi/small_parallel_enja. Dev's pairs are the test here, and 500 source sentences held
out of train validate; with the repository's own test: --config.data.dev=dev
--config.data.test=test. The words stand apart already, so BLEU on it is comparable with other
figures on this text only. The model is multi30k.py's. Not run here to the end.
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
