"""The small trained models: their content, size, scores and answers; forged copies of them."""

import dataclasses
import hashlib
import json
import shutil
import sys

import pytest

from common_jax.deploy import load, load_model
from common_jax.deploy.format import Export
from common_jax.deploy.named import demos
from common_jax.errors import UserError
from common_jax.io import checksums
from launch.serve.limits import Limits
from launch.serve.metrics import Metrics
from launch.serve.models import served
from launch.serve.openapi import document
from launch.serve.pages import model_page
from tests.launch import commands, older_exports
from tests.launch.corrupt_files import sealed, values

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


def answers_by_parameters(name):
    """The answers of a demo by its programs, and by its parameters as those of a stranger."""
    loaded = load(f"demo:{name}"), load(demos()[name], untrusted=True)
    return [next(predictor.predict([INPUTS[name]])).to_dict() for predictor in loaded]


def test_a_stranger_s_export_answers_by_its_parameters_as_by_its_programs():
    expected, actual = answers_by_parameters("attconv")
    assert actual == commands.close(expected, 1e-6)


def answers_in_int8(family, folder):
    """The answers of a demo, and of its parameters in int8, as earlier versions stored them."""
    model = older_exports.write_in_type(demos()[family], folder / "model", "int8")
    loaded = load(f"demo:{family}"), load(model, untrusted=True)
    return [next(predictor.predict([INPUTS[family]])) for predictor in loaded]


def test_a_trained_model_answers_in_int8_as_in_float32(tmp_path):
    expected, actual = answers_in_int8("attconv", tmp_path)
    assert actual.to_dict() == commands.close(expected.to_dict(), 0.05)


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


def test_a_declared_size_is_checked_before_arrays_are_made(tmp_path):
    model = shutil.copytree(demos()["attconv"], tmp_path / "model")
    sealed(values("config.json", config__words__rows=2**40))(model)
    with pytest.raises(UserError, match=r"words\.rows=1099511627776: more than the export's"):
        load(model, untrusted=True)
