"""The paper's setting on WAT17 Japanese-English, the ASPEC corpus (section 5), base and big.

  python -m launch.train --config configs/csan/wat17_jaen.py:base --config.data.dir=FOLDER
  python -m launch.train --config configs/csan/wat17_jaen.py:big --config.data.dir=FOLDER

FOLDER is ASPEC-JE as distributed, with train/train-1.txt, train/train-2.txt, dev/dev.txt and
test/test.txt; JST and NICT provide it for research on application (Nakazawa et al. 2016,
lotus.kuee.kyoto-u.ac.jp/ASPEC). "The first two sections ... 2M sentence pairs" are the best aligned
of three. The paper: 28.10 BLEU for the Transformer-base and 28.50 for 2D-CSAN, 28.41 and 28.73 for
big (Table 2), on tokenised text; here SentencePiece reads raw text. Not run here.
"""

from configs.csan import systems, wmt14_ende

_PAPER = {
    "": (
        "Transformer-base: test tokenized_bleu 28.10",
        "2D-CSAN: test tokenized_bleu 28.50",
    ),
    "big": (
        "Transformer-big: test tokenized_bleu 28.41",
        "2D-CSAN, big: test tokenized_bleu 28.73",
    ),
}


def get_config(system: str = ""):
    config = wmt14_ende.get_config(system)
    config.data.source_vocab_size = config.data.target_vocab_size = 0  # the paper does not say
    config.data.update(
        dir="data/ASPEC-JE",
        train="train/train-1.txt,train/train-2.txt",
        dev="dev/dev.txt",
        test="test/test.txt",
        # train: score ||| document ||| sentence ||| Japanese ||| English; the others have no score
        separator=" ||| ",
        columns="-2,-1",
        source_language="ja",
        target_language="en",
    )
    config.paper.update(results=_PAPER[systems.sized(system)[0]], source="Table 2, BLEU on tokens")
    return config
