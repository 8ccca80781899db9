"""The small trained models: their content, size, scores and answers; forged copies of them."""

import dataclasses
import hashlib
import json
import shutil
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from common_jax.deploy import load, load_model
from common_jax.deploy.format import Export
from common_jax.deploy.named import demos
from common_jax.errors import UserError
from common_jax.io import checksums
from csan_jax.data.subwords import Subwords
from launch.predict import __main__ as predict
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from launch.serve.models import served
from launch.serve.openapi import document
from launch.serve.pages import model_page
from tests.launch import commands, older_exports
from tests.launch.corrupt_files import sealed, values
from tests.launch.older_exports import PARAMETERS

LARGEST = 8_000_000  # bytes of all
CHECKSUMS = {  # SHA-256 of checksums.json
    "attconv": "3ffe6a0c974fc19effff5a69fae90d77f5d3854fb8057519c6061edfb67a3b71",
    "csan": "5ab2c85eef2ca198f22240613e59402fdfedaed2fe0c3cff4f4fccf5f2bb1952",
    "qanet": "8cd9d7bc45b503f3df09abb85e30255959c21452bd662ea8fd57b994571303d6",
}
SCORES = {  # on test, those of the cards
    "attconv": ("accuracy", 97.3),
    "csan": ("sacrebleu", 99.02),
    "qanet": ("f1", 98.70),
}
EXAMPLES = {  # answers to the examples of the pages that are like the training data
    "attconv": ["entailment", "neutral", "contradiction"],
    "csan": [
        "Wir treffen uns am Donnerstagmorgen um fünf vor halb fünf vor dem Museum.",
        "Das Kind bleibt bis zum dreizehnten April in Köln.",
        "Bitte kopieren Sie Seite dreiundachtzig des Berichts.",
    ],
    "qanet": ["Wenira", "Honeybridge", "846"],
}
CONTEXT = "Ada lives in Rome. Ben lives in Turin."
INPUTS = {
    "attconv": "The seven plates in the tent are all blue.\tThe tent has more than four plates.",
    "csan": "In Vienna it is already nine o'clock.",
    "qanet": json.dumps({"context": CONTEXT, "question": "Who lives in Rome?"}),
}


def test_the_demos_are_small_and_whole():
    assert sorted(demos()) == sorted(CHECKSUMS)
    sizes = [file.stat().st_size for folder in demos().values() for file in folder.rglob("*.*")]
    assert sum(sizes) < LARGEST
    for name, folder in demos().items():
        digest = hashlib.sha256((folder / checksums.NAME).read_bytes()).hexdigest()
        assert (name, digest) == (name, CHECKSUMS[name])
        assert Export(f"demo:{name}").manifest.versions["jax"] == "0.10.2"


@pytest.mark.parametrize("name", SCORES)
def test_the_card_has_the_scores(name):
    head = (demos()[name] / "README.md").read_text().partition("\n---\n")[0]
    index = json.loads(head.partition("model-index: ")[2].partition("\n")[0])
    scored = {entry["dataset"]["split"]: entry["metrics"] for entry in index[0]["results"]}
    actual = {metric["type"]: metric["value"] for metric in scored["test"]}
    metric, value = SCORES[name]
    assert actual[metric] == pytest.approx(value, abs=0.005)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_demo_is_right_on_its_examples_and_marks_one_from_outside(name):
    loaded = load_model(f"demo:{name}")
    model = served(name, loaded, Limits(), Metrics())
    answers = [answer.to_dict() for answer in loaded.predictor().predict(loaded.examples)]
    field = {"attconv": "label", "csan": "translation", "qanet": "answer"}[name]
    assert [answer[field] for answer in answers] == EXAMPLES[name]
    assert model.explains and model.examples[3:] == [model.outside]
    page = model_page(model, [model])
    before = page[: page.index("unlike its training data")]
    assert model.trained_on in before and before.count("data-example") == 4
    post = document([model], Limits())["paths"][f"/v1/models/{name}:predict"]["post"]
    assert model.trained_on in post["description"] and model.outside[0] in post["description"]
    other = served(name, dataclasses.replace(loaded, generated=False), Limits(), Metrics())
    assert not other.trained_on and len(other.examples) == 3


def test_the_translator_writes_a_blank_before_a_price():
    (answer,) = load("demo:csan").predict(["The book costs twelve euros in this shop."])
    assert str(answer) == "Das Buch kostet in diesem Laden zwölf Euro."


@pytest.mark.slow_for("csan", "qanet")
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_stranger_s_export_answers_by_its_parameters_as_by_its_programs(name):
    loaded = load(f"demo:{name}"), load(demos()[name], untrusted=True)
    expected, actual = (next(one.predict([INPUTS[name]])).to_dict() for one in loaded)
    assert actual == commands.close(expected, 1e-6 if name == "attconv" else 1e-5)


@pytest.mark.slow_for("csan", "qanet")
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_trained_model_answers_in_int8_as_in_float32(name, tmp_path):
    """As earlier versions stored it."""
    model = older_exports.write_in_type(demos()[name], tmp_path / "model", "int8")
    loaded = load(f"demo:{name}"), load(model, untrusted=True)
    expected, actual = (next(one.predict([INPUTS[name]])).to_dict() for one in loaded)
    assert actual == commands.close(expected, 0.0 if name == "csan" else 0.05)


EVIL = {
    "a task": {"config__task": "evil_package.task:Task"},
    "a class in the config": {"config__model__name": "evil_package.model:Model"},
    "a class of the standard library": {"config__model__name": "antigravity:Model"},
}


@pytest.mark.parametrize("what", EVIL)
def test_a_stranger_s_export_imports_no_other_package(what, tmp_path, monkeypatch):
    package = tmp_path / "evil_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    model = shutil.copytree(demos()["attconv"], tmp_path / "model")
    sealed(values("config.json", **EVIL[what]))(model)
    with pytest.raises(UserError, match=r"config\.json: .*: of the package '.*--trust_pack"):
        load(model, untrusted=True)
    assert "antigravity" not in sys.modules


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


@pytest.mark.slow
@pytest.mark.parametrize("case", FORGED, ids="-".join)
def test_a_forged_export_is_one_line_before_memory_is_taken(case, tmp_path, monkeypatch, capsys):
    change, words = FORGED[case]
    model = shutil.copytree(demos()[case[0]], tmp_path / "model")
    change(model)
    line = commands.fails(monkeypatch, capsys, ["--model", str(model)], predict.main)
    assert words in line and str(model) in line


@pytest.mark.slow_for("qanet")
@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("qanet", lexicon(words=more_words), "embedding has .* rows"),
        ("attconv", lexicon(words=more_words), "embedding has .* rows"),
        (
            *("attconv", sealed(values("config.json", config__words__rows=2**40))),
            r"words\.rows=1099511627776: more than the export's",
        ),
    ],
)
def test_declared_sizes_are_checked_before_arrays_are_made(family, change, message, tmp_path):
    model = shutil.copytree(demos()[family], tmp_path / "model")
    change(model)
    with pytest.raises(UserError, match=message):
        load(model, untrusted=True)
