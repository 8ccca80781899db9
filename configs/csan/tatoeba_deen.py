"""2D-CSAN on Tatoeba German-English sentence pairs (tatoeba.org, as collected by manythings.org).

  python -m launch.train --config configs/csan/tatoeba_deen.py --config.data.dir=FOLDER

FOLDER holds deu-eng.tsv or .tsv.gz: English, a tab, German. One English sentence often has several
translations, and here German is the source: dev and test are held out by distinct sentences.
"""

from common_jax.config import to_config_dict
from configs.csan import systems
from csan_jax.config import Config


def get_config(system: str = ""):
    config = to_config_dict(Config())
    config.data.dir = "data/tatoeba"
    config.data.train = "deu-eng.tsv"
    config.data.dev = ""
    config.data.test = ""
    config.data.tsv_columns = "2,1"
    config.data.source_language = "de"
    config.data.target_language = "en"
    config.data.vocab_size = 8000
    # One shape of batch, hence one compilation; 64 pieces hold nearly every sentence.
    config.data.max_length = 64
    config.data.batching = "packed"
    config.data.row_tokens = 64
    config.data.batch_tokens = 2048
    config.data.on_bad_example = "skip"

    config.model.dim = 256
    config.model.mlp_dim = 1024
    config.model.num_heads = 4
    config.model.encoder_layers = 3
    config.model.decoder_layers = 3
    config.model.encoder_attention.local_layers = 2
    config.model.tie = "all"

    config.optimizer.learning_rate = 1.5e-3
    config.optimizer.warmup_steps = 600
    config.train.steps = 10_000
    config.optimizer.cooldown_start = 5000
    config.optimizer.cooldown_steps = 5000
    return systems.choose_sized(config, system)
