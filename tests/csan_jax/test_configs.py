"""CSAN's configs: settings, and the corpora that they read, in small."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.errors import UserError
from common_jax.training.config import parse
from common_jax.training.mesh import make_mesh
from common_jax.training.state import init_state, run_key
from common_jax.training.step import make_train_step
from configs.csan.systems import SYSTEMS
from csan_jax.attention.area import Area
from csan_jax.data.dataset import TranslationData
from csan_jax.model import Transformer
from csan_jax.task import Translation
from tests.real import needs_real_data, real_data

FOLDER = Path(__file__).parents[2] / "configs" / "csan"
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


def languages(name, **fields):
    """The source and the target language of a config with overridden fields of `data`."""
    overrides = [f"--config.data.{key}={value}" for key, value in fields.items()]
    data = parse(f"{FOLDER / name}.py", overrides).data
    return data.source_language, data.target_language


def test_a_shipped_config_names_the_languages_of_its_corpus():
    names = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "systems"}
    assert {name: languages(name) for name in names} == PAIRS


def test_the_languages_of_ones_own_pairs_must_be_named():
    with pytest.raises(UserError, match=r"data.train=train.csv: name its languages"):
        languages("pairs", train="train.csv")
    named = {"train": "train.csv", "source_language": "fi", "target_language": "sv"}
    assert languages("pairs", **named) == ("fi", "sv")


@pytest.mark.parametrize(
    ("files", "fields", "pair"),
    [
        ("de en", {"source_language": "de"}, ("de", "en")),
        ("de.gz en", {"target_language": "en"}, ("de", "en")),
        ("de en", {}, ("en", "de")),
        ("de en fr", {"target_language": "fr"}, ("en", "fr")),
        ("fr ru", {"source_language": "ru"}, ("ru", "fr")),
        ("fr ru", {"source_language": "ru", "target_language": "fr"}, ("ru", "fr")),
        ("de en", {"train": "train", "dev": "train"}, ("en", "de")),
        ("de en fr", {"source_language": "de"}, None),
        ("fr ru", {}, None),
        ("fr ru", {"source_language": "en"}, None),
        ("de", {"source_language": "de"}, None),
    ],
)
def test_parallel_files_have_their_languages_as_endings(files, fields, pair, tmp_path):
    for ending in files.split():
        (tmp_path / f"train.{ending}").touch()
    (tmp_path / "trainer.es").touch()
    if pair:
        assert languages("multi30k", dir=tmp_path, **fields) == pair
        return
    with pytest.raises(UserError, match=r"^data\.train=train.*: name its languages, as in --conf"):
        languages("multi30k", dir=tmp_path, **fields)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("multi30k", {"train": "pairs.tsv"}),
        ("multi30k", {"train": "pairs.tsv", "target_language": "th"}),
        ("tatoeba_deen", {"columns": "1,2"}),  # English and German
        ("tatoeba_deen", {"source_language": "en"}),
        ("wat17_jaen", {"train": "own.txt"}),
    ],
)
def test_a_table_has_no_languages_but_those_that_are_set(name, fields):
    with pytest.raises(UserError, match=r"^data\.train=[^ ]+: name its languages, as in --config"):
        languages(name, **fields)
    pair = {"source_language": "fr", "target_language": "th"}
    assert languages(name, **fields | pair) == ("fr", "th")


def test_columns_may_name_the_languages():
    named = {"train": "pairs.csv", "columns": "source=de-AT,target=en"}
    assert languages("multi30k", **named) == ("de-AT", "en")
    assert languages("tatoeba_deen", columns="en,de") == ("en", "de")
    given = {"source_language": "en", "target_language": "nds"}
    assert languages("tatoeba_deen", columns="en,de", **given) == ("en", "nds")


def test_a_config_file_without_languages_is_asked_for_them(tmp_path):
    lines = "from csan_jax.config import Config\nfrom common_jax.config import to_config_dict\n"
    file = tmp_path / "own.py"
    file.write_text(f"{lines}def get_config():\n    return to_config_dict(Config())\n")
    with pytest.raises(UserError, match=r"^data\.train=train: name its languages"):
        parse(str(file), [])
    generated = ["--config.data.source=generated", "--config.data.examples=9"]
    with pytest.raises(UserError, match=r"^data\.source=generated: pairs of English and German"):
        parse(str(FOLDER / "tatoeba_deen.py"), generated)


@pytest.mark.parametrize("name", SIZED)
def test_the_papers_settings_differ_in_the_corpus_alone(name):
    base, big = (parse(f"{FOLDER / name}.py:{size}", []) for size in ("base", "big"))
    assert parse(f"{FOLDER / name}.py", []) == base
    assert (base.model.dim, big.model.dim, big.model.dropout) == (512, 1024, 0.3)
    first = parse(f"{FOLDER / SIZED[0]}.py:base", [])
    assert base.model == first.model and base.optimizer == first.optimizer
    assert base.data.batch_tokens == 8 * 4096 and base.data.vocab_size == 32_000
    assert base.data.vocab_sizes == ((24_004, 30_851) if name == SIZED[0] else (32_000, 32_000))
    message = r"must be base \| big \| transformer \| .*csan_1d \| csan_2d \| big-SYSTEM"
    with pytest.raises(UserError, match=f"'huge': {message}"):
        parse(f"{FOLDER / name}.py:huge", [])


FILES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in (*SIZED, "systems"))
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
    config = parse(f"{FOLDER}/multi30k.py:transformer", ["--config.model.num_heads=1"])
    assert config.model.num_heads == 1
    with pytest.raises(UserError, match="a window of 3 heads does not fit 1 heads"):
        parse(f"{FOLDER}/multi30k.py:csan_2d", ["--config.model.num_heads=1"])


def parameters(config) -> int:
    """The number of parameters with Table 1's vocabularies, without initialising the model."""
    sizes = {"source_vocab_size": 24_004, "target_vocab_size": 30_851}
    model = Transformer(dataclasses.replace(config.model, **sizes))
    pieces = jnp.ones((1, 2), jnp.int32)
    init = lambda key: model.init(key, pieces, pieces, train=False)
    shapes = jax.eval_shape(init, jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def test_parameters_of_the_papers_systems():
    count = lambda system: parameters(parse(f"{FOLDER / SIZED[0]}.py:{system}", []))
    base = count("transformer")
    assert base == 88_022_528
    assert {system: count(system) - base for system in ADDED} == ADDED
    assert {*SYSTEMS} - {*ADDED} == {"transformer_wide"}
    assert abs(count("transformer_wide") / (base + ADDED["cnns"]) - 1) < 0.01


@pytest.mark.parametrize("name", SIZED)
def test_systems_of_the_papers_files_have_a_size(name):
    read = lambda system: parse(f"{FOLDER / name}.py:{system}", [])
    base, big = read("base"), read("big")
    for system, changes in AREAS.items():
        for prefix, plain in (("", base), ("big-", big)):
            config, area = read(prefix + system), Area(**{"local_layers": 3, **changes})
            assert config.model == dataclasses.replace(plain.model, encoder_attention=area)
            assert config.paper.system == prefix + system
            assert config.data == plain.data and config.train == plain.train
    assert (base.paper.system, big.paper.system) == ("csan_2d", "big-csan_2d")


@pytest.mark.parametrize("name", [name for name in FILES if name != "__init__"])
def test_systems_of_the_other_files_change_the_model_alone(name):
    plain = parse(f"{FOLDER / name}.py", [])
    assert plain.paper.system == "" and plain.model.encoder_attention.local_layers in (1, 2)
    for system, changes in AREAS.items():
        config = parse(f"{FOLDER / name}.py:{system}", ["--config.model.attention_dropout=0.5"])
        plain_model = dataclasses.replace(plain.model, attention_dropout=0.5)
        area = dataclasses.replace(plain.model.encoder_attention, **changes)
        assert config.model == dataclasses.replace(plain_model, encoder_attention=area)
    for system in SYSTEMS:
        config, wide = (parse(f"{FOLDER / name}.py:{size}{system}", []) for size in ("", "wide-"))
        assert (config.paper.system, wide.paper.system) == (system, f"wide-{system}")
        rest = lambda config: dataclasses.replace(config, model=plain.model, paper=plain.paper)
        assert rest(config) == rest(wide) == plain
        assert (wide.model.dim, wide.model.num_heads) == (
            2 * plain.model.dim,
            2 * plain.model.num_heads,
        )
    for wrong in ("big", "wide-", "wide-wide-cnns"):
        with pytest.raises(UserError, match=r"must be transformer \| .*csan_2d \| wide-SYSTEM"):
            parse(f"{FOLDER / name}.py:{wrong}", [])


SHRUNK = {
    "data.source": "generated",
    "data.examples": 60,
    "data.holdout_size": 4,
    "data.vocab_size": 400,
    "data.max_length": 64,
    "data.batch_tokens": 128,
    "data.max_shapes": 1,
    "model.dim": 8,
    "model.mlp_dim": 8,
    "model.num_heads": 2,
    "mesh.data": 1,
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name != "wmt14_ende"))
        for name in (*SIZED, *FILES)
        if name != "__init__"
    ],
)
def test_takes_a_step(name, tmp_path):
    """Each config shortened, on the generated corpus."""
    plain = parse(f"{FOLDER / name}.py", []).data
    sizes = {f"data.{side}_vocab_size": 400 for side in ("source", "target")}
    changes = SHRUNK | ({} if plain.joint_vocabulary else sizes) | {"data.cache_dir": tmp_path}
    config = parse(f"{FOLDER / name}.py", [f"--config.{k}={v}" for k, v in changes.items()])
    task, mesh = Translation(config), make_mesh(config.mesh)
    task.prepare()
    batch = task.train_batches().epoch(0)[0]
    step, state = make_train_step(task, mesh), init_state(task, mesh)
    before = jax.tree.map(np.array, state.params)
    after, metrics = step(state, (batch,), run_key(0, mesh))
    values = {name: value.item() for name, value in metrics.items()}
    assert (values["real"], values["bad_steps"]) == (task.count_units(batch)[0], 0)
    assert 0.5 < values["nll"] / np.log(400) < 2
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), before, after.params)
    assert all(jax.tree.leaves(moved))


def prepared(name, cache, **options) -> TranslationData:
    fields = options | {"cache_dir": cache, "vocab_size": options.get("vocab_size", 400)}
    overrides = [f"--config.data.{key}={value}" for key, value in fields.items()]
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
    assert [pairs for pairs, _ in data.split_sizes().values()] == [50, 5, 5]
    assert list(zip(data.sources("test"), data.references("test"), strict=True)) == rows[55:]


@needs_real_data
def test_tanaka(tmp_path):
    folder = real_data("tanaka_jaen")
    data = prepared("tanaka_jaen", tmp_path, dir=folder, vocab_size=8000)
    (train, _), (dev, _), (test, _) = data.split_sizes().values()
    assert len(set(data.sources("dev"))) == test == 500 and train + dev == 50_000
    assert not any(dropped for _, dropped in data.split_sizes().values())
    assert data.target_subwords.size == 8000
