"""CSAN's configs: settings, and the corpora that they read, in small."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from common_jax.errors import UserError
from common_jax.training.config import parse
from configs.csan.systems import SYSTEMS
from csan_jax.attention.area import Area
from csan_jax.data.dataset import TranslationData
from csan_jax.model import Transformer
from tests import random_params
from tests.families.test_configs import FOLDER

SIZED = ["wmt14_ende", "wmt17_zhen", "wat17_jaen"]
PAIRS = {
    "multi30k": ("en", "de"),
    "multi30k_small": ("en", "de"),
    "pairs": ("en", "de"),
    "quickstart": ("en", "de"),
    "tanaka_jaen": ("ja", "en"),
    "tatoeba_deen": ("de", "en"),
    "wat17_jaen": ("ja", "en"),
    "wmt14_ende": ("en", "de"),
    "wmt17_zhen": ("zh", "en"),
}


def read(name, **changes):
    """A config, FILE or FILE:SYSTEM, with overridden fields."""
    file, colon, system = name.partition(":")
    overrides = [f"--config.{key}={value}" for key, value in changes.items()]
    return parse(f"{FOLDER / 'csan' / file}.py{colon}{system}", overrides)


def languages(name, **fields):
    data = read(name, **{f"data.{key}": value for key, value in fields.items()}).data
    return data.source_language, data.target_language


def test_a_shipped_config_names_the_languages_of_its_corpus():
    names = {path.stem for path in (FOLDER / "csan").glob("*.py")} - {"__init__", "systems"}
    assert {name: languages(name) for name in names} == PAIRS


CSV = {"train": "pairs.csv", "columns": "source=de-AT,target=en"}


@pytest.mark.parametrize(
    ("name", "files", "fields", "pair"),
    [
        ("multi30k", "de en", {"source_language": "de"}, ("de", "en")),
        ("multi30k", "de.gz en", {"target_language": "en"}, ("de", "en")),
        ("multi30k", "de en", {}, ("en", "de")),
        ("multi30k", "de en fr", {"target_language": "fr"}, ("en", "fr")),
        ("multi30k", "fr ru", {"source_language": "ru"}, ("ru", "fr")),
        ("multi30k", "fr ru", {"source_language": "ru", "target_language": "fr"}, ("ru", "fr")),
        ("multi30k", "de en", {"train": "train", "dev": "train"}, ("en", "de")),
        ("multi30k", "de en fr", {"source_language": "de"}, None),
        ("multi30k", "fr ru", {}, None),
        ("multi30k", "fr ru", {"source_language": "en"}, None),
        ("multi30k", "de", {"source_language": "de"}, None),
        # a table has no languages but those that are set
        ("multi30k", "", {"train": "train.csv"}, None),
        ("multi30k", "", {"train": "pairs.tsv"}, None),
        ("multi30k", "", {"train": "pairs.tsv", "target_language": "th"}, None),
        ("tatoeba_deen", "", {"columns": "1,2"}, None),  # English and German
        ("tatoeba_deen", "", {"source_language": "en"}, None),
        ("wat17_jaen", "", {"train": "own.txt"}, None),
        # or the names of its columns
        ("multi30k", "", CSV, ("de-AT", "en")),
        ("tatoeba_deen", "", {"columns": "en,de"}, ("en", "de")),
    ],
)
def test_ones_own_corpus_has_the_languages_of_its_files_or_must_name_them(
    name, files, fields, pair, tmp_path
):
    for ending in files.split():
        (tmp_path / f"train.{ending}").touch()
    (tmp_path / "trainer.es").touch()
    folder = {"dir": tmp_path} if files else {}
    if pair:
        assert languages(name, **folder, **fields) == pair
    else:
        with pytest.raises(UserError, match=r"^data\.train=[^ ]+( \(.+\))?: name its languages"):
            languages(name, **folder, **fields)
    if not files:
        named = {"source_language": "fr", "target_language": "nds"}
        assert languages(name, **fields | named) == ("fr", "nds")


def test_a_config_file_without_languages_is_asked_for_them(tmp_path):
    lines = "from csan_jax.config import Config\nfrom common_jax.config import to_config_dict\n"
    file = tmp_path / "own.py"
    file.write_text(f"{lines}def get_config():\n    return to_config_dict(Config())\n")
    with pytest.raises(UserError, match=r"^data\.train=train: name its languages"):
        parse(str(file), [])
    with pytest.raises(UserError, match=r"^data\.source=generated: .* English and German"):
        languages("tatoeba_deen", source="generated", examples=9)


@pytest.mark.parametrize("name", SIZED)
def test_the_papers_settings_differ_in_the_corpus_alone(name):
    base, big = read(f"{name}:base"), read(f"{name}:big")
    assert read(name) == base
    assert (base.model.dim, big.model.dim, big.model.dropout) == (512, 1024, 0.3)
    first = read(f"{SIZED[0]}:base")
    assert base.model == first.model and base.optimizer == first.optimizer
    assert base.data.batch_tokens == 8 * 4096 and base.data.vocab_size == 32_000
    assert base.data.vocab_sizes == ((24_004, 30_851) if name == SIZED[0] else (32_000, 32_000))
    for system, changes in AREAS.items():
        for prefix, plain in (("", base), ("big-", big)):
            config, area = read(f"{name}:{prefix}{system}"), Area(**{"local_layers": 3, **changes})
            assert config.model == dataclasses.replace(plain.model, encoder_attention=area)
            assert config.paper.system == prefix + system
            assert config.data == plain.data and config.train == plain.train
    assert (base.paper.system, big.paper.system) == ("csan_2d", "big-csan_2d")
    with pytest.raises(UserError, match=r"'huge': must be base \| big \| .* \| big-SYSTEM"):
        read(f"{name}:huge")


AREAS = {"transformer": {"local_layers": 0}, "csan_1d": {"head_window": 1}, "csan_2d": {}}
ADDED = {  # parameters over `transformer` of base, by the formulas of the papers
    **dict.fromkeys(("transformer", "bi_direct", "bi_direct_local", "csan_1d", "csan_2d"), 0),
    "rel_pos": 6 * 2 * 33 * 64,
    "rel_pos_local": 3 * 2 * 33 * 64,
    "rel_pos_decoder": 12 * 2 * 33 * 64,
    "neighbor": 3 * 8,
    **dict.fromkeys(("neighbor_predicted", "local_hard", "luong"), 3 * (513 * 256 + 257 * 4)),
    "local_soft": 3 * (513 * 256 + 2 * 257 * 4),
    "local_soft_8": 3 * (513 * 512 + 2 * 513 * 8),
    "cnns": 12 * (7 * 512 + 512**2 + 3 * 512),
    "cnns_full": 12 * (7 * 512**2 + 3 * 512),
    "block": 3 * (2 * 513 * 512 + 513 * 8 + 1025 * 512 + 512**2),
}


def test_a_transformer_may_have_one_head():
    assert read("multi30k:transformer", **{"model.num_heads": 1}).model.num_heads == 1
    with pytest.raises(UserError, match="a window of 3 heads does not fit 1 heads"):
        read("multi30k:csan_2d", **{"model.num_heads": 1})


def test_parameters_of_the_papers_systems():
    """With Table 1's vocabularies."""
    pieces = jnp.ones((1, 2), jnp.int32)
    sizes = {"source_vocab_size": 24_004, "target_vocab_size": 30_851}

    def count(system):
        model = dataclasses.replace(read(f"{SIZED[0]}:{system}").model, **sizes)
        shapes = random_params.shapes(Transformer(model), pieces, pieces, train=False)
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))

    base = count("transformer")
    assert base == 88_022_528
    assert {system: count(system) - base for system in ADDED} == ADDED
    assert {*SYSTEMS} - {*ADDED} == {"transformer_wide"}
    assert abs(count("transformer_wide") / (base + ADDED["cnns"]) - 1) < 0.01


@pytest.mark.parametrize("name", [name for name in PAIRS if name not in SIZED])
def test_systems_of_the_other_files_change_the_model_alone(name):
    plain = read(name)
    assert plain.paper.system == "" and plain.model.encoder_attention.local_layers in (1, 2)
    for system, changes in AREAS.items():
        config = read(f"{name}:{system}", **{"model.attention_dropout": 0.5})
        area = dataclasses.replace(plain.model.encoder_attention, **changes)
        expected = {"attention_dropout": 0.5, "encoder_attention": area}
        assert config.model == dataclasses.replace(plain.model, **expected)
    for system in SYSTEMS:
        config, wide = (read(f"{name}:{size}{system}") for size in ("", "wide-"))
        assert wide.paper.system == f"wide-{system}"
        rest = lambda config: dataclasses.replace(config, model=plain.model, paper=plain.paper)
        assert rest(config) == rest(wide) == plain
        sizes = [(m.dim, m.num_heads) for m in (plain.model, wide.model)]
        assert sizes[1] == (2 * sizes[0][0], 2 * sizes[0][1])
    for wrong in ("big", "wide-wide-cnns"):
        with pytest.raises(UserError, match=r"must be transformer \| .* \| wide-SYSTEM"):
            read(f"{name}:{wrong}")


def prepared(name, **fields):
    data = TranslationData(read(name, **{f"data.{key}": v for key, v in fields.items()}).data)
    data.prepare()
    return data


def test_full_is_the_former_name_of_the_ordinary_convolution():
    full, ordinary = (
        read("quickstart:cnns", **{"model.encoder_attention.kind": kind})
        for kind in ("full", "ordinary")
    )
    assert full == ordinary


def test_wat17_reads_the_corpus_as_it_is_distributed(tmp_path):
    rows = [(f"文{n}をここに書く。", f"We write sentence {n} here.") for n in range(60)]
    parts = {"train/train-1": rows[:30], "train/train-2": rows[30:50]}
    for name, part in (parts | {"dev/dev": rows[50:55], "test/test": rows[55:]}).items():
        score = "0.19 ||| " if name.startswith("train") else ""
        lines = [f"{score}X-{n} ||| {n} ||| {ja} ||| {en}\n" for n, (ja, en) in enumerate(part)]
        file = tmp_path / f"{name}.txt"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(lines))
    data = prepared("wat17_jaen", cache_dir=tmp_path / "cache", dir=tmp_path, vocab_size=290)
    assert [pairs for pairs, _ in data.split_sizes().values()] == [50, 5, 5]
    assert list(zip(data.sources("test"), data.references("test"), strict=True)) == rows[55:]
