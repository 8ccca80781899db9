"""Which rule splits texts into words, and which reads their white space: of config files, own
files, and configs of earlier runs."""

import pytest

from attconv_jax.config import Config as PairsConfig
from attconv_jax.config import DataConfig as PairsData
from attconv_jax.config import WordsConfig as PairsWords
from common_jax.config import from_values, to_config_dict
from common_jax.data.word_level import given_vocabulary, tokeniser_identity
from common_jax.errors import UserError
from common_jax.text.vocabulary import Vocabulary
from common_jax.training.config import parse
from common_jax.training.config_files import installed_configs
from csan_jax.config import Config as Translator
from csan_jax.config import DataConfig as Parallel
from qanet_jax.config import Config as ReaderConfig
from qanet_jax.config import DataConfig as ReaderData
from qanet_jax.models.base import WordsConfig as ReaderWords

OWN = {"attconv/pairs", "attconv/rankings", "attconv/texts", "qanet/questions"}
CONFIGS = [n for n in installed_configs() if not n.startswith("csan/") and n not in OWN]


@pytest.mark.parametrize("name", CONFIGS)
def test_config_files_have_the_rule_of_the_published_results(name):
    assert parse(name, []).words.rule == "english"
    assert (
        parse(name, ["--config.words.rows=9000", "--config.data.vectors="]).words.rule == "english"
    )


@pytest.mark.parametrize("name", sorted(OWN))
def test_config_files_for_own_files_have_the_rule_for_all_scripts(name):
    assert parse(name, []).words.rule == "unicode"


@pytest.mark.parametrize(
    "name", ["qanet/squad_small", "qanet/squad", "attconv/snli", "attconv/yelp"]
)
def test_own_files_have_the_rule_for_all_scripts(name, tmp_path):
    own = "--config.data.train=own.json"
    assert parse(name, [own]).words.rule == "unicode"
    assert parse(name, [own, "--config.words.rule=english"]).words.rule == "english"
    for rule in ("english", "unicode"):
        (tmp_path / rule / "vocabulary").mkdir(parents=True)
        Vocabulary({"a": 2}, "", rule=rule).save(tmp_path / rule / "vocabulary")
        given = [own, f"--config.data.vocabulary_from={tmp_path / rule}"]
        assert parse(name, given).words.rule == rule
        assert parse(name, [*given, "--config.words.rule=english"]).words.rule == "english"
    joined = f"{own},{parse(name, []).data.train}"  # augmented: comparable with the corpus alone
    assert parse(name, [joined]).words.rule == "english"


def test_datasets_have_the_rule_of_the_config_file():
    overrides = [
        "--config.data.source=tfds",
        "--config.data.tfds=squad",
        "--config.data.train=train",
    ]
    assert parse("qanet/squad", overrides).words.rule == "english"


@pytest.mark.parametrize(
    ("kind", "words", "data"),
    [
        (ReaderConfig, ReaderWords(rows=9), ReaderData(dir="x")),
        (PairsConfig, PairsWords(), PairsData(dir="x", train="t.tsv")),
    ],
)
def test_configs_of_earlier_versions_have_their_rule(kind, words, data):
    values = to_config_dict(kind(words=words, data=data)).to_dict()
    assert from_values(kind, values).words.rule == "unicode"
    del values["words"]["rule"]
    assert from_values(kind, values).words.rule == "english"


TRANSLATION = [name for name in installed_configs() if name.startswith("csan/")]
EN_DE = ["--config.data.source_language=en", "--config.data.target_language=de"]


@pytest.mark.parametrize("name", TRANSLATION)
def test_white_space_of_translations(name):
    own, keep = "--config.data.train=own.tsv", "--config.data.white_space=keep"
    published = "blanks" if name == "csan/pairs" else "keep"
    assert parse(name, EN_DE).data.white_space == published
    files = "--config.data.source=files", "--config.data.dir=x"
    assert parse(name, [own, *files, *EN_DE]).data.white_space == "blanks"
    assert parse(name, [own, *files, keep, *EN_DE]).data.white_space == "keep"


def test_translators_of_earlier_versions_keep_white_space():
    values = to_config_dict(Translator(data=Parallel(dir="x"))).to_dict()
    assert from_values(Translator, values).data.white_space == "blanks"
    del values["data"]["white_space"]
    assert from_values(Translator, values).data.white_space == "keep"


def test_another_runs_vocabulary_needs_its_rule(tmp_path):
    Vocabulary({"a": 2}, "", rule="unicode").save(tmp_path)
    assert given_vocabulary(tmp_path, "unicode", 9).rule == "unicode"
    message = "words.rule=english: .* has words of words.rule=unicode; set it to that"
    with pytest.raises(UserError, match=message):
        given_vocabulary(tmp_path, "english", 9)


def test_prepared_corpora_of_earlier_versions_stay_valid():
    """Their fingerprints have no rule."""
    assert tokeniser_identity("english").keys() == {"code", "nltk"}
    assert tokeniser_identity("unicode")["rule"] == "unicode"
