"""AttentiveConvNet on labelled pairs of texts of one's own, as texts.py.

  python -m launch.train --config configs/attconv/pairs.py --config.data.train=pairs.csv

`pairs.py:SYSTEM` selects another system of systems.py.
"""

from configs.attconv import texts


def get_config(system="advanced_intra"):
    return texts.get_config(system, format="pairs", labels="entailment,neutral,contradiction")
