"""Which rule splits texts into words, and which reads their white space: of config files, own
files, and configs of earlier runs."""

import pytest

from attconv_jax.config import Config as PairsConfig
from attconv_jax.config import DataConfig as PairsData
from attconv_jax.config import WordsConfig as PairsWords
from common_jax.config import from_values, to_config_dict
from common_jax.data.word_level import given_vocabulary, tokeniser_identity
from common_jax.deploy.configs import parse
from common_jax.errors import UserError
from common_jax.text.vocabulary import Vocabulary
from common_jax.training.config_files import installed_configs
from csan_jax.config import Config as Translator
from csan_jax.config import DataConfig as Parallel
from qanet_jax.config import Config as ReaderConfig
from qanet_jax.config import DataConfig as ReaderData
from qanet_jax.models.base import WordsConfig as ReaderWords

OWN = {"attconv/pairs", "attconv/rankings", "attconv/texts", "qanet/questions"}
CONFIGS = [name for name in installed_configs() if not name.startswith("csan/")]
TFDS = ["data.source=tfds", "data.tfds=squad", "data.train=train"]


def values(name, *overrides):
    return parse(name, [f"--config.{override}" for override in overrides])


@pytest.mark.parametrize("name", CONFIGS)
def test_config_files_have_the_rule_of_the_published_results_and_own_files_that_for_all(name):
    rule = "unicode" if name in OWN else "english"
    assert values(name).words.rule == rule
    assert values(name, "words.rows=9000", "data.vectors=").words.rule == rule


@pytest.mark.parametrize(
    "name", ["qanet/squad_small", "qanet/squad", "attconv/snli", "attconv/yelp"]
)
def test_own_files_have_the_rule_for_all_scripts(name, tmp_path):
    own = "data.train=own.json"
    assert values(name, own).words.rule == "unicode"
    assert values(name, own, "words.rule=english").words.rule == "english"
    for rule in ("english", "unicode"):
        (tmp_path / rule / "vocabulary").mkdir(parents=True)
        Vocabulary({"a": 2}, "", rule=rule).save(tmp_path / rule / "vocabulary")
        given = f"data.vocabulary_from={tmp_path / rule}"
        assert values(name, own, given).words.rule == rule
        assert values(name, own, given, "words.rule=english").words.rule == "english"
    joined = f"{own},{values(name).data.train}"  # augmented: comparable with the corpus alone
    assert values(name, joined).words.rule == "english"
    if name == "qanet/squad":  # a dataset has the rule of the config file
        assert values(name, *TFDS).words.rule == "english"


EN_DE = ["data.source_language=en", "data.target_language=de"]


@pytest.mark.parametrize("name", [n for n in installed_configs() if n.startswith("csan/")])
def test_white_space_of_translations(name):
    own = ["data.train=own.tsv", "data.source=files", "data.dir=x", *EN_DE]
    published = "blanks" if name == "csan/pairs" else "keep"
    assert values(name, *EN_DE).data.white_space == published
    assert values(name, *own).data.white_space == "blanks"
    assert values(name, *own, "data.white_space=keep").data.white_space == "keep"


@pytest.mark.parametrize(
    ("config", "section", "key", "now", "earlier"),
    [
        (
            ReaderConfig(words=ReaderWords(rows=9), data=ReaderData(dir="x")),
            *("words", "rule", "unicode", "english"),
        ),
        (
            PairsConfig(words=PairsWords(), data=PairsData(dir="x", train="t.tsv")),
            *("words", "rule", "unicode", "english"),
        ),
        (Translator(data=Parallel(dir="x")), "data", "white_space", "blanks", "keep"),
    ],
    ids=["reader", "pairs", "translator"],
)
def test_configs_of_earlier_versions_have_their_rule(config, section, key, now, earlier):
    stored = to_config_dict(config).to_dict()
    assert getattr(getattr(from_values(type(config), stored), section), key) == now
    del stored[section][key]
    assert getattr(getattr(from_values(type(config), stored), section), key) == earlier


def test_another_runs_vocabulary_needs_its_rule(tmp_path):
    Vocabulary({"a": 2}, "", rule="unicode").save(tmp_path)
    assert given_vocabulary(tmp_path, "unicode", 9).rule == "unicode"
    with pytest.raises(UserError, match=r"words\.rule=english: .* words\.rule=unicode"):
        given_vocabulary(tmp_path, "english", 9)


def test_prepared_corpora_of_earlier_versions_stay_valid():
    """Their fingerprints have no rule."""
    assert tokeniser_identity("english").keys() == {"code", "nltk"}
    assert tokeniser_identity("unicode")["rule"] == "unicode"
