"""QANet on TriviaQA's Wikipedia domain, as in the paper (Yu et al. 2018, section 4.2).

  python -m launch.train --config configs/qanet/triviaqa.py --config.data.dir=FOLDER \
    --config.data.vectors=glove.840B.300d.zip

FOLDER holds qa and evidence of nlp.cs.washington.edu/triviaqa (triviaqa-rc); with
--config.data.source=tfds --config.data.tfds=trivia_qa/rc the splits are train and validation.
Training uses windows of 256 words around the first alias of the answer. Dev is scored by the
official rule on the documents' first 800 words, and as "dev_oracle" on windows of 400 words with an
answer, as in the paper: EM 51.1, F1 56.6 (Full), 53.3 and 59.2 (Verified). Not yet trained here.
`triviaqa.py:SYSTEM` selects another system (systems.py).
"""

from configs.qanet.systems import config_of
from qanet_jax.config import DataConfig
from qanet_jax.models.base import WordsConfig


def get_config(system="qanet"):
    data = DataConfig(
        format="triviaqa",
        dir="data/triviaqa",
        train="qa/wikipedia-train.json",
        dev="qa/wikipedia-dev.json",
        vectors="data/glove/glove.840B.300d.zip",
    )

    config = config_of(system, data, WordsConfig(rule="english"))
    config.train.update(
        compute_dtype="bfloat16",
        steps=120_000,
        evaluate_every=5000,
        checkpoint_every=2000,
    )

    config.paper.results = (
        "QANet: dev_oracle exact_match 51.1 f1 56.6 verified_exact_match 53.3 verified_f1 59.2",
    )
    config.paper.source = "Table 7"
    return config
