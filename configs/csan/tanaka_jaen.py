"""2D-CSAN on short Japanese-English sentences of the Tanaka corpus, tokenised, English lower-cased.

  python -m launch.train --config configs/csan/tanaka_jaen.py --config.data.dir=FOLDER

FOLDER holds train (50,000 pairs) and dev (500), each .ja and .en, plain or .gz, from
github.com/odashi/small_parallel_enja. Dev is the test here, and 500 source sentences are held out
of train for validation; with the repository's own test: --config.data.dev=dev
--config.data.test=test. The text is tokenised, so that BLEU is comparable only with other results
on this text. 3 + 3 layers of 256. Not run here to the end.
"""

from configs.csan import multi30k, systems


def get_config(system: str = ""):
    config = multi30k.get_config()
    config.data.update(
        dir="data/tanaka_jaen",
        dev="",
        holdout_size=500,
        test="dev",
        source_language="ja",
        target_language="en",
        batch_tokens=512,
    )

    config.model.update(
        dim=256,
        mlp_dim=1024,
        encoder_layers=3,
        decoder_layers=3,
        dropout=0.1,
    )

    config.optimizer.update(learning_rate=1e-3, cooldown=5300 / 6000)
    config.train.update(evaluate_every=1500, checkpoint_every=1500)
    return systems.choose_sized(config, system)
