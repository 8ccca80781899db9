"""Word overlap on SQuAD's real sentences."""

import numpy as np

from attconv_jax.config import DataConfig, WordsConfig
from attconv_jax.data.dataset import LabelledData
from attconv_jax.score import score_ranking
from tests.attconv_jax import anss
from tests.real import needs_real_data, real_data


@needs_real_data
def test_word_overlap_on_squad(tmp_path):
    """The paper has 68.87 and 79.59, on a test of twice as many pairs."""
    anss.write(tmp_path)
    files = {split: str(tmp_path / f"{split}.json") for split in ("train", "dev")}
    files["test"] = "dev-v1.1.json"
    folders = {"dir": str(real_data("squad")), "cache_dir": str(tmp_path)}
    data = LabelledData(DataConfig(**anss.FORM, **files, **folders), WordsConfig())
    data.prepare()
    corpus = data.corpus("test")
    _, notes, _ = score_ranking(corpus, np.zeros((len(corpus), 2)))
    assert (notes["examples"], notes["pairs"]) == (10_570, 53_658)
    assert (notes["WordC1"], notes["WordC2"]) == (69.05, 79.5)
