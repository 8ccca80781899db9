"""Dataclasses from nested mappings, and renamed keys and classes in them and on command lines."""

import copy
import dataclasses
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from common_jax import fields, renames
from common_jax.config import from_values
from common_jax.deploy import predictor_class
from common_jax.deploy.predictor import Predictor
from common_jax.errors import UserError
from common_jax.fields import from_mapping, named_class, require, to_mapping
from common_jax.training.config import parse, task_class
from qanet_jax.config import Config
from qanet_jax.models.bidaf import BiDAF
from qanet_jax.predictor import QuestionAnswerer
from tests.refusals import refusal


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0

    def __post_init__(self):
        require(self.x >= 0, "x: at least 0")


@dataclasses.dataclass(frozen=True)
class Limited(fields.Section):
    section: ClassVar[str] = "model"
    rows: int = fields.size(8)
    passes: int = fields.size(3, least=3)
    width: int = fields.odd(3)
    dropout: float = fields.rate(0.1)
    copies: float = fields.share(1.0)
    gain: float = fields.positive(1.0)
    penalty: float = fields.not_negative(0.0)


@pytest.mark.parametrize(
    ("name", "wrong", "limit"),
    [
        ("rows", (0,), "at least 1"),
        ("passes", (2,), "at least 3"),
        ("width", (0, 2, -1), "must be odd"),
        ("dropout", (1.0, -0.1, math.nan), "a rate"),
        ("copies", (1.1, -0.1, math.nan), "a share"),
        ("gain", (0.0, math.nan), "above 0"),
        ("penalty", (-1.0, math.nan), "not negative"),
    ],
)
def test_a_section_s_values_keep_the_limits_of_its_fields(name, wrong, limit):
    assert from_mapping(Limited, to_mapping(Limited())) == Limited()
    for value in wrong:
        with pytest.raises(UserError, match=f"model.{name}={value}: {limit}"):
            dataclasses.replace(Limited(), **{name: value})


@dataclasses.dataclass(frozen=True)
class Drawing:
    origin: Point | None = None
    size: int | None = None
    points: tuple[Point, ...] = ()
    named: Mapping[str, Point] = dataclasses.field(default_factory=dict)
    weights: Mapping[str, float] = dataclasses.field(default_factory=dict)


def test_lists_mappings_and_optional_fields():
    values = {
        "origin": {"x": 1},
        "size": None,
        "points": [{"x": 2, "y": 3}, {"x": 4}],
        "named": {"a": {"x": 5}},
        "weights": {"b": 1, "c": 0.5},
    }
    drawing = from_mapping(Drawing, values)
    points = (Point(2, 3.0), Point(4))
    assert drawing == Drawing(Point(1), None, points, {"a": Point(5)}, {"b": 1.0, "c": 0.5})
    assert type(drawing.points[0].y) is type(drawing.weights["b"]) is float
    assert from_mapping(Drawing, {}) == Drawing()
    assert to_mapping(Drawing(size=3))["size"] == 3


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"points": [{"x": 1}, {"x": 1, "z": 2}]}, "points[1]: unknown key 'z'; known here: x, y"),
        ({"points": [{}]}, "points[0]: key 'x' is missing"),
        ({"points": [{"x": -1}]}, "points[0]: x: at least 0"),
        ({"points": {"x": 1}}, "points={'x': 1}: expected a list, got dict"),
        ({"points": [1]}, "key 'points[0]' is a group of keys"),
        ({"named": {"a": {"x": "1"}}}, "named.a: x='1': expected int, got str"),
        ({"named": [1]}, "key 'named' is a group of keys"),
        ({"weights": {"a": True}}, "weights.a=True: expected float, got bool"),
        ({"size": 1.5}, "size=1.5: expected int, got float"),
        ({"origin": {"x": 1, "z": 2}}, "unknown key 'origin.z'; known here: x, y"),
    ],
)
def test_errors_name_the_location(values, message):
    assert refusal(from_mapping, Drawing, values) == message


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("config", "key", "message"),
    [
        ("qanet/squad", "form=triviaqa", r"^config key 'data\.form' is now 'data\.format'$"),
        ("attconv/snli", "form=texts", r"^unknown config key 'data\.form'"),  # of another package
    ],
)
def test_a_former_key_on_the_command_line_is_refused(monkeypatch, config, key, message):
    monkeypatch.setitem(renames.CONFIG_KEYS, "qanet_jax", {"data.form": "data.format"})
    with pytest.raises(UserError, match=message):
        parse(str(ROOT / f"configs/{config}.py"), [f"--config.data.{key}"])


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


@pytest.mark.slow
def test_all_stored_trials_have_current_names_or_renames():
    files = sorted((ROOT / "docs" / "results").rglob("*.zip"))
    assert len(files) > 200
    for file in files:
        with zipfile.ZipFile(file) as archive:
            values = json.loads(archive.read("config.json"))
        config_class = task_class(values["task"]).config_class
        sections = to_mapping(from_values(config_class, values)).keys()
        assert sections == renames.with_current_keys(config_class, values).keys(), file
