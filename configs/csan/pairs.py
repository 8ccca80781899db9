"""2D-CSAN on sentence pairs of one's own: some twenty minutes on one CPU core.

  python -m launch.train --config configs/csan/pairs.py --config.data.train=pairs.csv

The files are tables in any format with columns such as "english" and "german", or two files of
lines (docs/data.md); --config.data.source_language and target_language set others than en and de.
Without --config.data.dev and --config.data.test both are held out of train. The model and the steps
of tatoeba_deen.py, for some 100,000 pairs; `pairs.py:SYSTEM` selects another system (systems.py).
"""

from configs.csan import systems, tatoeba_deen


def get_config(system: str = ""):
    config = tatoeba_deen.get_config()
    config.data.update(dir="data", train="en-de.csv", columns="", quotes="auto")
    config.data.update(source_language="en", target_language="de", holdout_size=1000)
    config.data.inferred = "dir,columns,source_language,target_language,holdout_size,vocab_size"
    config.data.update(on_bad_example="error", white_space="blanks")
    config.train.update(evaluate_every=500, patience=3)
    return systems.choose_sized(config, system)
