"""Every config of every family: its command, its systems by name, its schedule."""

import dataclasses
import importlib
from pathlib import Path

import jax.numpy as jnp
import pytest

from attconv_jax.config import DataConfig, WordsConfig
from common_jax.errors import UserError
from common_jax.training.config import parse
from common_jax.training.optimizer import make_schedule
from configs.attconv.systems import ORIGINALS, config_of
from configs.attconv.systems import SYSTEMS as MATCHERS
from configs.csan.systems import SYSTEMS as TRANSLATORS
from configs.qanet.systems import SYSTEMS as READERS

FOLDER = Path(__file__).parents[2] / "configs"
FILES = sorted(
    str(path.relative_to(FOLDER).with_suffix(""))
    for path in FOLDER.glob("*/*.py")
    if path.stem not in ("__init__", "systems")
)
SYSTEMS = {"csan": TRANSLATORS, "qanet": READERS, "attconv": MATCHERS}
WRONG = {
    "csan": ("wide-", r"transformer .*csan_1d \| csan_2d .*-SYSTEM"),
    "qanet": ("qanets", r"qanet \| .*did you mean 'qanet'"),
    "attconv": ("cnn-original", "SYSTEM-original of decomposable"),
}

# Systems of attentive convolution that also read a single text, a review.
OF_ONE_TEXT = {
    *("cnn", "light", "advanced", "bi_lstm", "self_attentive", "lin_bilstm", "lin_cnn"),
    *("multichannel_cnn", "internal_attention", "paragraph_vector"),
}
OF_REVIEWS = ("attconv/yelp", "attconv/reviews_small", "attconv/texts")


@pytest.mark.parametrize("file", FILES)
def test_parses_and_has_its_command_and_its_systems_by_name(file):
    family = file.partition("/")[0]
    path = f"{FOLDER / file}.py"
    assert parse(path, []).task.startswith(f"{family}_jax.task:")
    command = f"python -m launch.train --config configs/{file}"
    assert command in importlib.import_module(f"configs.{file.replace('/', '.')}").__doc__
    for system in SYSTEMS[family]:
        if file in OF_REVIEWS and system not in OF_ONE_TEXT:
            with pytest.raises(UserError, match=r"two texts|only attend to itself"):
                parse(f"{path}:{system}", [])
        else:
            assert parse(f"{path}:{system}", []).paper.system == system
    wrong, message = WRONG[family]
    with pytest.raises(UserError, match=f"'{wrong}': must be .*{message}"):
        parse(f"{path}:{wrong}", [])


COOLDOWNS = {
    "attconv/quickstart": (400, 600),
    "attconv/reviews_small": (1000, 1000),
    "attconv/snli_small": (1100, 1100),
    "csan/multi30k": (1000, 5000),
    "csan/multi30k_small": (300, 700),
    "csan/quickstart": (120, 120),
    "csan/tanaka_jaen": (700, 5300),
    "csan/tatoeba_deen": (1000, 2000),
    "qanet/quickstart": (180, 220),
    "qanet/squad_small": (4000, 8000),
}


@pytest.mark.parametrize("name", COOLDOWNS)
def test_cooldowns_are_those_of_stored_runs(name):
    """Start and length at the config's number of steps, in integers, and at twice as many."""
    config = parse(f"{FOLDER / name}.py", [])
    scheduled = config.optimizer.scheduled(config.train.steps)
    assert (scheduled.cooldown_start, scheduled.cooldown_steps) == COOLDOWNS[name]
    twice = config.optimizer.scheduled(2 * config.train.steps)
    assert twice.last_step == 2 * config.train.steps
    assert twice.cooldown_steps == 2 * scheduled.cooldown_steps


QANET, ATTCONV = FOLDER / "qanet", FOLDER / "attconv"
OTHERS = {"rnn1": 1, "rnn2": 2, "rnn3": 3}  # the LSTM layers of the recurrent twins
ABLATIONS = {
    "no_convolution": {"convolution": "none"},
    "no_attention": {"self_attention": False},
    "ordinary_convolution": {"convolution": "ordinary"},
}


@pytest.mark.parametrize("name", ["quickstart", "squad", "squad_small", "triviaqa"])
def test_reading_systems_differ_in_the_model_alone(name):
    base = parse(f"{QANET / name}.py", [])
    assert base.paper.system == "qanet"
    assert {"qanet", "bidaf", "random", "classifier"} <= {*READERS}
    for system, fields in ABLATIONS.items():
        config = parse(f"{QANET / name}.py:{system}", [])
        assert config.model == dataclasses.replace(base.model, **fields) != base.model
        assert dataclasses.replace(config, model=base.model, paper=base.paper) == base
    for system, layers in OTHERS.items():
        config = parse(f"{QANET / name}.py:{system}", [])
        assert config.model.lstm_layers == layers and config.model.dim == base.model.dim
        for section in ("words", "data", "optimizer", "train"):
            assert getattr(config, section) == getattr(base, section)


def test_bidaf_is_trained_as_in_its_paper():
    """Seo et al. 2017, section 4.1."""
    config = parse(str(QANET / "squad.py:bidaf"), [])
    assert config.data.vectors.endswith("glove.6B.100d.txt") and config.words.dim == 100
    assert (config.data.batch_size, config.model.char_dim, config.word_length) == (60, 8, 16)
    assert (config.optimizer.name, config.optimizer.learning_rate) == ("adadelta", 0.5)
    assert (config.model.dropout, config.train.ema_decay) == (0.2, 0.999)
    assert config.train.steps == 20_000
    assert config.optimizer.l2 == config.optimizer.clip_norm == config.optimizer.warmup_steps == 0


NAMES = [name.partition("/")[2] for name in FILES if name.startswith("attconv/")]


@pytest.mark.parametrize("name", NAMES)
def test_systems_of_attentive_convolution_and_originals(name):
    """Originals have as many epochs as with the file's settings, and the original's training."""
    read = lambda system: parse(f"{ATTCONV / name}.py:{system}", [])
    attention = "intra" if f"attconv/{name}" in OF_REVIEWS else "inter"
    for system, source in (("light", "states"), ("advanced", "multigranular")):
        model = read(system).model
        assert (model.attention, model.focus) == (attention, source)
    with pytest.raises(UserError, match=r"'wide': must be cnn \| light \| advanced"):
        read("wide")
    for system in ORIGINALS:
        if attention == "intra" and system not in OF_ONE_TEXT:
            continue
        config, own = read(f"{system}-original"), read(system)
        assert config.paper.system == f"{system}-original"
        assert config.paper.results == own.paper.results
        seen, expected = (c.train.steps * c.data.batch_size for c in (config, own))
        assert seen == pytest.approx(expected, rel=0.01)
        shares = []
        for c in (config, own):
            rate = make_schedule(c.optimizer, c.train.steps)
            at = [float(rate(jnp.int32(part * c.train.steps))) for part in (0.3, 0.9)]
            shares.append([value / c.optimizer.learning_rate for value in at])
        assert shares[0] == pytest.approx(shares[1], abs=0.02)
        settings = [(c.optimizer, c.model, c.words) for c in (config, own)]
        assert settings[0] != settings[1]


@pytest.mark.parametrize(
    ("file", "flags", "message"),
    [
        *(
            ("snli_small", [field], f"{field}: only for data.format=ranking")
            for field in ("loss=cross_entropy", "pairs=batch", "margin=0.1")
        ),
        ("rankings", ["data.dir=x", "pairs=batch", "train.accumulate=2"], "accumulate=2: pairs="),
    ],
)
def test_settings_of_rankings(file, flags, message):
    """A comparison over a batch needs all of it."""
    with pytest.raises(UserError, match=message):
        parse(f"{ATTCONV / file}.py", [f"--config.{flag}" for flag in flags])


def test_published_numbers():
    results = lambda name: parse(f"{ATTCONV}/{name}", []).paper.results
    assert results("snli.py:nse") == ("NES: test accuracy 84.8",)
    assert results("snli_small.py:decomposable") == ()  # not in the table
    assert results("squad_anss.py:wordc2") == ("WordC2: test precision_at_1 79.59",)
    assert results("yelp.py:light") == ("AttentiveConvNet, light: test accuracy 66.75",)


def test_a_config_sets_fields_of_the_models_that_have_them():
    data = DataConfig(source="generated", examples=9)
    fields = {"dim": 7, "phrase_width": 5}
    models = [config_of(s, data, WordsConfig(dim=6), **fields) for s in ("cnn", "advanced")]
    assert [config.model.dim for config in models] == [7, 7]
    assert "phrase_width" not in models[0].model and models[1].model.phrase_width == 5
