"""The paper's setting on WMT17 Chinese-English (section 5), base and big.

  python -m launch.train --config configs/csan/wmt17_zhen.py:base --config.data.dir=FOLDER
  python -m launch.train --config configs/csan/wmt17_zhen.py:big --config.data.dir=FOLDER

The text is TensorFlow Datasets' wmt17_translate/zh-en (News Commentary, UN and CWMT corpora, about
25 million pairs; newsdev2017, newstest2017), downloaded into FOLDER at the first run, which needs
the extra `tf`. For own files in FOLDER, train, newsdev2017 and newstest2017, each .zh and .en:
--config.data.source=files --config.data.dev=newsdev2017 --config.data.test=newstest2017. The paper:
20.62 million unspecified pairs, and 24.13 BLEU for the Transformer-base, 24.80 for 2D-CSAN, 24.56
and 25.01 for big (Table 2). Not run here.
"""

from configs.csan import systems, wmt14_ende

_PAPER = {
    "": (
        "Transformer-base: test tokenized_bleu 24.13",
        "2D-CSAN: test tokenized_bleu 24.80",
    ),
    "big": (
        "Transformer-big: test tokenized_bleu 24.56",
        "2D-CSAN, big: test tokenized_bleu 25.01",
    ),
}


def get_config(system: str = ""):
    config = wmt14_ende.get_config(system)
    config.data.source_vocab_size = config.data.target_vocab_size = 0  # the paper does not say
    config.data.update(
        source="tfds",
        tfds="wmt17_translate/zh-en",
        dir="data/tensorflow_datasets",
        dev="validation",
        test="test",
        source_language="zh",
        target_language="en",
    )
    config.paper.update(results=_PAPER[systems.sized(system)[0]], source="Table 2, BLEU on tokens")
    return config
