"""The paper's setting on WMT14 English-German (section 5), base and big.

  python -m launch.train --config configs/csan/wmt14_ende.py:base --config.data.dir=FOLDER
  python -m launch.train --config configs/csan/wmt14_ende.py:big --config.data.dir=FOLDER

FOLDER holds train, newstest2013 and newstest2014, each .en and .de, plain or .gz, from
statmt.org/wmt14 (about 4.5 million pairs). TensorFlow Datasets has the same corpus and downloads it
into FOLDER at the first run, which needs the extra `tf`: --config.data.source=tfds
--config.data.tfds=wmt14_translate/de-en --config.data.dev=validation --config.data.test=test. For
text from Moses's tokenizer (with &apos; and &quot;): --config.data.moses_escapes=undo. The paper:
27.31 tokenised BLEU for the Transformer-base and 28.18 for 2D-CSAN, 28.58 and 28.74 for big (Table
2), on 8 P40 GPUs; one checkpoint's sacreBLEU is about 1.5 lower than its compound-split tokenised
BLEU. Not run here. Other systems by name (configs/csan/systems.py): wmt14_ende.py:csan_1d is base,
wmt14_ende.py:big-csan_1d is big.
"""

from common_jax.config import to_config_dict
from configs.csan import systems
from csan_jax.config import Config

_PAPER = {
    "": (
        "Transformer-base: test tokenized_bleu 27.31",
        "1D-CSAN: test tokenized_bleu 27.86",
        "2D-CSAN: test tokenized_bleu 28.18",
    ),
    "big": (
        "Transformer-big: test tokenized_bleu 28.58",
        "2D-CSAN, big: test tokenized_bleu 28.74",
    ),
}


def get_config(system: str = ""):
    size, name = systems.sized(system)
    config = to_config_dict(Config())
    config.data.update(
        dir="data/wmt14",
        white_space="keep",  # of the published results
        source_language="en",
        target_language="de",
        dev="newstest2013",
        test="newstest2014",
        joint_vocabulary=False,  # Table 1's count has two vocabularies
        # "byte-pair encoding with 32K merge operations" gives these, by Table 1's count
        source_vocab_size=24_004,
        target_vocab_size=30_851,
        max_length=256,  # the authors' code
        # "8 GPUs with a batch of 4096 tokens": each, in the authors' toolkit
        batch_tokens=8 * 4096,
        on_bad_example="skip",
    )

    # "the Base and Big settings same as Vaswani et al. (2017)", Table 3 there
    if size == "big":
        config.model.update(
            dim=1024,
            mlp_dim=4096,
            num_heads=16,
            dropout=0.3,
        )
    systems.choose(config, name, size)

    config.paper.update(results=_PAPER[size], source="Tables 1 and 2, BLEU on tokens")

    config.optimizer.update(learning_rate=(config.model.dim * 4000) ** -0.5, clip_norm=0.0)
    config.train.update(
        compute_dtype="bfloat16",
        # as Vaswani et al. (2017); the paper states no number of steps
        steps=300_000 if size == "big" else 100_000,
        evaluate_every=5000,
        checkpoint_every=1000,
    )
    return config
