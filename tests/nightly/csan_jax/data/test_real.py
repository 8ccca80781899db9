"""Real translations: prepared, in other layouts, in subwords and in batches."""

import hashlib
import itertools
import re

import numpy as np
import pytest
from sacremoses import MosesDetokenizer

from common_jax.data.epoch_plan import BucketPlan, choose_shapes
from common_jax.io.files import read_lines
from csan_jax.data.packing import PackedPlan, pack
from csan_jax.data.subwords import Subwords
from tests.common_jax.data.other_tools import parquet
from tests.csan_jax.data.test_sources import read
from tests.families.data.corpora import translation, translation_config
from tests.families.data.test_layouts import flat, spreadsheet, wmt, write_files
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


def test_multi30k_as_people_have_it(tmp_path):
    options = dict(vocab_size=4000, cache_dir=str(tmp_path / "cache"))
    native = translation(real_data("multi30k"), **MULTI30K, **options).digests()
    for split, name in MULTI30K.items():
        sides = [lines_of(f"multi30k/{name}.{language}.gz") for language in ("en", "de")]
        pairs = list(zip(*sides, strict=True))
        write_files(tmp_path, f"{split}-*.csv", lambda rows: spreadsheet(flat(rows)), pairs)
        write_files(tmp_path, f"{split}-*.parquet", lambda rows: parquet(wmt(rows)), pairs)
    for ending in ("csv", "parquet"):
        names = {split: f"{split}-*.{ending}" for split in MULTI30K}
        assert translation(tmp_path, **names, **options).digests() == native


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


def test_padding_of_packed_batches_and_of_a_few_shapes():
    sides = [lines_of(f"multi30k/train.{language}.gz") for language in ("en", "de")]
    subwords = Subwords.train(itertools.chain(*sides), 8000)
    lengths = np.array([[len(row) + 1 for row in subwords.encode(side)] for side in sides]).T
    for width, tokens in ((128, 512), (128, 4096), (256, 4096)):
        plan = PackedPlan(lengths, pack(lengths, [width, width]), tokens)
        assert 1 - lengths.sum() / (plan.batches * plan.rows[0] * 2 * width) < 0.03
    for tokens in (1024, 4096):
        plan = BucketPlan(lengths, choose_shapes(lengths, 8), tokens, 0)
        positions = sum(plan.rows[b.shape] * plan.shapes[b.shape].sum() for b in plan.epoch(0))
        assert 1 - lengths.sum() / positions < 0.15
