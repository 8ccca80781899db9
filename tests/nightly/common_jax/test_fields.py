"""Stored configs with renamed keys and classes, and the configs of all stored trials."""

import copy
import json
import zipfile

import pytest

from common_jax import renames
from common_jax.config import from_values
from common_jax.deploy import predictor_class
from common_jax.deploy.predictor import Predictor
from common_jax.errors import UserError
from common_jax.fields import from_mapping, named_class, to_mapping
from common_jax.training.config import task_class
from qanet_jax.config import Config
from qanet_jax.models.bidaf import BiDAF
from qanet_jax.predictor import QuestionAnswerer
from tests.common_jax.test_fields import ROOT

STORED = {
    "task": "qanet_jax.reader:Reader",
    "model": {"name": "qanet_jax.reader:Net", "word_dim": 50},
    "words": {"rows": 20_000},
    "data": {"form": "triviaqa", "dir": "data", "train": "a", "dev": "b"},
}


@pytest.fixture
def tables(monkeypatch):
    """Entries as those of renamed keys and classes."""
    keys = {"data.form": "data.format", "model.word_dim": "words.dim", "data.gone": "train.gone"}
    monkeypatch.setitem(renames.CONFIG_KEYS, "qanet_jax", keys)
    classes = {
        "qanet_jax.reader:Reader": "qanet_jax.task:SpanExtraction",
        "qanet_jax.reader:Net": "qanet_jax.models.bidaf:BiDAF",
        "qanet_jax.reader:Predictor": "qanet_jax.predictor:QuestionAnswerer",
    }
    for former, current in classes.items():
        monkeypatch.setitem(renames.CLASSES, former, current)


def test_former_keys_and_classes_in_a_stored_config_are_renamed(tables):
    values = copy.deepcopy(STORED)
    config = from_values(Config, values)
    assert values == STORED
    assert config.task == "qanet_jax.task:SpanExtraction"
    assert type(config.model) is BiDAF
    assert (config.words.dim, config.words.rows, config.data.format) == (50, 20_000, "triviaqa")
    assert from_values(Config, to_mapping(config)) == config
    del values["words"]  # the section of the current key need not be there
    values["data"]["vectors"] = "vectors.txt"
    assert from_values(Config, values).words.dim == 50


def test_a_run_and_an_export_with_former_names_are_read(tables, tmp_path):
    stored = json.dumps({"version": 1, "config": STORED})
    (tmp_path / "config.json").write_text(stored)
    assert predictor_class(tmp_path) is QuestionAnswerer
    assert named_class("qanet_jax.reader:Predictor", Predictor, "predictor") is QuestionAnswerer


def test_without_entries_former_names_are_unknown():
    with pytest.raises(UserError, match=r"^unknown key 'model\.word_dim'"):
        from_values(Config, {**STORED, "model": {"word_dim": 50}})
    with pytest.raises(UserError, match="no such task"):
        task_class("qanet_jax.reader:Reader")


def test_all_stored_trials_have_current_names_or_renames():
    files = sorted((ROOT / "docs" / "results").rglob("*.zip"))
    assert len(files) > 200
    for file in files:
        with zipfile.ZipFile(file) as archive:
            values = json.loads(archive.read("config.json"))
        config_class = task_class(values["task"]).config_class
        values = renames.with_current_keys(config_class, values)
        config = from_mapping(config_class, values)
        assert json.loads(json.dumps(to_mapping(config))).keys() == values.keys(), file
