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
    "attconv": "6d90f12d00b14466f5c9b500b48390e1ee598dd5bf6cb5260b48d477a62581ad",
    "csan": "cd00852b23a3ce8441c3b96f6abaef671b85dbe8129bfd58c99ce89ac44631a5",
    "qanet": "00b3c65f1f474944d2f49e0f345299b58e768d3fae0a55f1bd7c8dd58b1c1571",
}
SCORES = {  # on test, those of the cards
    "attconv": ("accuracy", 97.3),
    "csan": ("sacrebleu", 99.02),
    "qanet": ("f1", 98.70),
}
EXAMPLES = {  # answers to those of the pages that are like the training data
    "attconv": ["contradiction", "entailment"],
    "csan": [
        "In Wien ist es schon Viertel vor neun.",
        "Das Buch kostet in diesem Laden zwölf Euro.",
    ],
    "qanet": ["Deerford", "274"],
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
def test_a_demo_is_right_on_its_examples_and_marks_the_one_from_outside(name):
    loaded = load_model(f"demo:{name}")
    model = served(name, loaded, Limits(), Metrics())
    schema = model.schema
    known = [line for n, line in enumerate(model.example_lines()) if n not in schema.outside]
    answers = [answer.to_dict() for answer in loaded.predictor().predict(known)]
    assert [answer[schema.views[0].field or "answer"] for answer in answers] == EXAMPLES[name]
    (outside,) = schema.outside
    button = f'data-example="{outside}"'
    page = model_page(model, [model])
    assert schema.generated in page and "unlike its" in page.partition(button)[2][:200]
    described = document([model], Limits())["paths"][f"/v1/models/{name}:predict"]["post"]
    assert schema.examples[outside][0] in described["description"] and model.explains
    other = served(name, dataclasses.replace(loaded, generated=False), Limits(), Metrics())
    assert not other.schema.generated and not other.schema.outside


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
