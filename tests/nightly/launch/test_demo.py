"""The demos that are slow to load, all of them in a server, and forged copies of them."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from common_jax.deploy import load
from common_jax.deploy.named import demos
from common_jax.errors import UserError
from csan_jax.data.subwords import Subwords
from launch.predict import __main__ as predict
from tests.launch import commands
from tests.launch.corrupt_files import sealed, values
from tests.launch.older_exports import PARAMETERS
from tests.launch.test_demo import CHECKSUMS, answers_by_parameters, answers_in_int8


@pytest.mark.parametrize("family", ["csan", "qanet"])
def test_trained_models_answer_in_int8_as_in_float32(family, tmp_path):
    expected, actual = answers_in_int8(family, tmp_path)
    if family == "csan":
        assert actual == expected
    else:
        assert actual.to_dict() == commands.close(expected.to_dict(), 0.05)


@pytest.mark.parametrize("name", ["csan", "qanet"])
def test_exports_of_strangers_answer_by_their_parameters(name):
    expected, actual = answers_by_parameters(name)
    assert actual == commands.close(expected, 1e-5)


def with_config(**changes):
    """A config in a format whose parameters are read by model code."""

    def change(model):
        values("export.json", format="safetensors", programs={})(model)
        values("config.json", **changes)(model)

    return sealed(change)


def lexicon(**more):
    """More entries in the lexicon's fields, by functions of the old ones."""

    def change(model):
        file = model / "vocabulary" / "lexicon.json"
        saved = json.loads(file.read_text())
        added = {name: function(saved) for name, function in more.items()}
        file.write_text(json.dumps(saved | added))

    return sealed(change)


def more_words(saved):
    first = max(saved["words"].values()) + 1
    return saved["words"] | {f"new{n}": first + n for n in range(1000)}


def more_pieces(model):
    random = np.random.default_rng(0)
    words = ["".join(random.choice([*"abcdefghijkl"], 6)) for _ in range(2000)]
    Subwords.train([" ".join(words)] * 2, 1200).save(model / "vocabulary" / "joint.model")


def fewer_rows(model):
    arrays = load_file(model / PARAMETERS)
    table = arrays["target_embedding"][:700]
    save_file(arrays | {"target_embedding": table}, model / PARAMETERS)


CHARACTERS = [chr(0x4E00 + n) for n in range(3000)]
HUGE = 2**31 - 1
setting = lambda **changes: sealed(values("export.json", **changes))
FORGED = {
    **{
        (family, "a config of huge shapes"): (with_config(config__model__dim=HUGE), "model.dim=")
        for family in CHECKSUMS
    },
    ("csan", "many layers"): (with_config(config__model__encoder_layers=HUGE), "encoder_layers="),
    ("csan", "a larger vocabulary"): (sealed(more_pieces), "target_embedding has 800 rows"),
    ("csan", "a smaller table"): (sealed(fewer_rows), "target_embedding has 700 rows"),
    ("qanet", "words of huge shapes"): (setting(settings__word_length=HUGE), "word_length="),
    ("qanet", "a larger vocabulary"): (lexicon(words=more_words), "embedding has 450 rows"),
    ("qanet", "characters"): (lexicon(characters=lambda _: CHARACTERS), "character_embedding has"),
    ("attconv", "inputs that are no JSON"): (setting(settings__inputs="[1"), "export.json: inputs"),
    ("attconv", "a larger vocabulary"): (lexicon(words=more_words), "word_embedding has 200 rows"),
}


@pytest.mark.parametrize("case", FORGED, ids="-".join)
def test_a_forged_export_is_one_line_before_memory_is_taken(case, tmp_path, monkeypatch, capsys):
    change, words = FORGED[case]
    model = shutil.copytree(demos()[case[0]], tmp_path / "model")
    change(model)
    line = commands.fails(monkeypatch, capsys, ["--model", str(model)], predict.main)
    assert words in line and str(model) in line


@pytest.mark.parametrize("family", ["qanet", "attconv"])
def test_a_vocabulary_beyond_the_parameters_is_refused_also_of_strangers(family, tmp_path):
    model = shutil.copytree(demos()[family], tmp_path / "model")
    lexicon(words=more_words)(model)
    with pytest.raises(UserError, match=r"embedding has .* rows"):
        load(model, untrusted=True)
