"""Configs of the family: their settings, and the corpora that they read, shrunk."""

from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.training.config import parse
from csan_jax.data.dataset import TranslationData
from tests.real import needs_real_data, real_data

FOLDER = Path(__file__).parents[2] / "configs" / "csan"
SIZED = ["wmt14_ende", "wmt17_zhen", "wat17_jaen"]


@pytest.mark.parametrize("name", SIZED)
def test_the_papers_settings_differ_in_the_corpus_alone(name):
    base, big = (parse(f"{FOLDER / name}.py:{size}", []) for size in ("base", "big"))
    assert (base.model.dim, big.model.dim, big.model.dropout) == (512, 1024, 0.3)
    first = parse(f"{FOLDER / SIZED[0]}.py:base", [])
    assert base.model == first.model and base.optimizer == first.optimizer
    assert base.data.batch_tokens == 8 * 4096 and base.data.vocab_size == 32_000
    with pytest.raises(UserError, match="'huge': must be base or big"):
        parse(f"{FOLDER / name}.py:huge", [])


def prepared(name, cache, **options) -> TranslationData:
    given = options | {"cache_dir": cache, "vocab_size": options.get("vocab_size", 400)}
    overrides = [f"--config.data.{key}={value}" for key, value in given.items()]
    data = TranslationData(parse(str(FOLDER / f"{name}.py"), overrides).data)
    data.prepare()
    return data


def test_wat17_reads_the_corpus_as_it_is_distributed(tmp_path):
    rows = [(f"文{n}をここに書く。", f"We write sentence {n} here.") for n in range(60)]
    parts = {"train/train-1": rows[:30], "train/train-2": rows[30:50]}
    for name, part in (parts | {"dev/dev": rows[50:55], "test/test": rows[55:]}).items():
        score = "0.19 ||| " if name.startswith("train") else ""
        lines = [f"{score}X-{n} ||| {n} ||| {ja} ||| {en}\n" for n, (ja, en) in enumerate(part)]
        file = tmp_path / f"{name}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(lines))
    data = prepared("wat17_jaen", tmp_path / "cache", dir=tmp_path, vocab_size=290)
    assert [sizes["pairs"] for sizes in data.sizes.values()] == [50, 5, 5]
    assert list(zip(data.sources("test"), data.references("test"), strict=True)) == rows[55:]


@needs_real_data
def test_tanaka(tmp_path):
    folder = real_data("tanaka_jaen")
    data = prepared("tanaka_jaen", tmp_path, dir=folder, vocab_size=8000)
    sizes = data.sizes
    assert len(set(data.sources("dev"))) == 500 and sizes["test"]["pairs"] == 500
    assert sizes["train"]["pairs"] + sizes["dev"]["pairs"] == 50_000
    assert not any(split["dropped"] for split in sizes.values())
    assert data.target_subwords.size == 8000
