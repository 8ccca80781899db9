"""Real translations: prepared, in other layouts, in subwords and in batches."""

import hashlib
import re

import numpy as np
import pytest
from sacremoses import MosesDetokenizer

from common_jax.io.files import read_lines
from csan_jax.data.subwords import Subwords
from tests.csan_jax.data.test_sources import read
from tests.families.data.corpora import translation, translation_config
from tests.real import needs_real_data, real_data

pytestmark = needs_real_data
MULTI30K = {"train": "train", "dev": "val", "test": "test_2016_flickr"}


def lines_of(name):
    return list(read_lines(real_data(name)))


def test_multi30k(tmp_path):
    options = dict(vocab_size=8000, max_length=64, batch_tokens=1024, max_shapes=8)
    data = translation(tmp_path, dir=str(real_data("multi30k")), **MULTI30K, **options)
    assert [*data.split_sizes().values()] == [(29_000, {}), (1014, {}), (1000, {})]
    batches = data.train_batches().epoch(0)
    sides = [batch[side].ravel() for batch in batches for side in ("source", "target")]
    assert np.mean(np.concatenate(sides) == 0) <= 0.15  # padding
    assert data.references("test") == lines_of("multi30k/test_2016_flickr.de.gz")


def test_tatoeba_does_not_leak(tmp_path):
    options = dict(train="deu-eng.tsv", dev="", test="", holdout_size=2000)
    options |= dict(vocab_size=8000, max_length=128, batch_tokens=128)
    data = translation(tmp_path, dir=str(real_data("tatoeba")), **options)
    dev, test = set(data.sources("dev")), set(data.sources("test"))
    assert len(dev) == len(test) == 2000 and not dev & test
    sources = [line.split("\t")[0] for line in lines_of("tatoeba/deu-eng.tsv.gz")]
    train = [source for source in sources if source not in dev | test]
    assert len(data.corpus("train")) == len(train)
    ids = data.source_subwords.encode(train)
    digest = hashlib.sha256(np.concatenate([[*row, 1] for row in ids]).astype("<i4").tobytes())
    written = hashlib.sha256((data.path / "train" / "source.tokens").read_bytes())
    assert written.digest() == digest.digest()


def test_wmt_has_no_remaining_escapes():
    options = dict(train="train.10k", dev="newstest2013", test="newstest2013")
    config = translation_config(real_data("wmt_ende"), **options, moses_escapes="undo")
    pairs, _, bad = read(config, "dev")
    assert not bad
    undo = MosesDetokenizer().unescape_xml
    for side, language in enumerate(("en", "de")):
        lines = lines_of(f"wmt_ende/newstest2013.{language}.gz")
        assert [pair[side] for pair in pairs] == list(map(undo, lines))
        assert any(pair[side] != line for pair, line in zip(pairs, lines, strict=True))


@pytest.mark.parametrize("name", ["multi30k/train.de.gz", "tanaka_jaen/train.ja.gz"])
def test_subwords_of_real_text_come_back(name):
    lines = lines_of(name)
    subwords = Subwords.train(lines, 8000)
    back = subwords.decode(subwords.encode(lines))
    assert back == [re.sub(" +", " ", line).strip(" ") for line in lines]
    assert sum(a == b for a, b in zip(back, lines, strict=True)) > 0.997 * len(lines)
