"""The small trained models: their content, size, scores and answers; forged copies of them."""

import hashlib
import json
import os
import shutil

import pytest
from common_jax.deploy.child import Limits

from common_jax.deploy import load
from common_jax.deploy.format import Export
from common_jax.deploy.named import demos
from common_jax.deploy.weights import restored, stored
from common_jax.errors import UserError
from common_jax.io import checksums
from common_jax.io.parameters import read_safetensors, write_safetensors
from tests.launch import commands
from tests.launch.corrupt_files import sealed, tensors

LARGEST = 4_000_000  # bytes of all
CHECKSUMS = {  # SHA-256 of checksums.json
    "attconv": "6d90f12d00b14466f5c9b500b48390e1ee598dd5bf6cb5260b48d477a62581ad",
    "csan": "ab68b63f2432f9a926f16b92217d34b38fb2bc3c3b0f70c3698a98cea480fb22",
    "qanet": "00b3c65f1f474944d2f49e0f345299b58e768d3fae0a55f1bd7c8dd58b1c1571",
}
SCORES = {  # on test, those of the cards
    "attconv": ("accuracy", 97.3),
    "csan": ("sacrebleu", 97.45),
    "qanet": ("f1", 98.70),
}
CONTEXT = "Ada lives in Rome. Ben lives in Turin."
INPUTS = {
    "attconv": "The seven plates in the tent are all blue.\tThe tent has more than four plates.",
    "csan": "In Vienna it is already nine o'clock.",
    "qanet": json.dumps({"context": CONTEXT, "question": "Who lives in Rome?"}),
}
PARAMETERS = "parameters.safetensors"


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


@pytest.mark.parametrize(
    "name,field,expected", [("attconv", "label", "entailment"), ("qanet", "answer", "Ada")]
)
def test_a_demo_answers(name, field, expected):
    (answer,) = load(f"demo:{name}").predict([INPUTS[name]])
    assert getattr(answer, field) == expected


def test_an_unknown_demo_names_the_known_ones():
    with pytest.raises(UserError, match="there are demo:attconv, demo:csan, demo:qanet"):
        load("demo:gpt")


def answers_in_int8(family, folder):
    """The answers of a demo, and with restored int8 weights in the place of its float32 ones."""
    model = shutil.copytree(demos()[family], folder / "model")
    params = stored(read_safetensors(model / PARAMETERS), "int8")
    sealed(lambda model: write_safetensors(restored(params), model / PARAMETERS))(model)
    return [next(load(path).predict([INPUTS[family]])) for path in (demos()[family], model)]


def test_a_trained_model_answers_in_int8_as_in_float32(tmp_path):
    expected, actual = answers_in_int8("attconv", tmp_path)
    assert actual.to_dict() == commands.close(expected.to_dict(), 0.05)


def test_parameters_of_more_bytes_than_the_limit_are_refused(tmp_path):
    model = shutil.copytree(demos()["attconv"], tmp_path / "model")
    header = {"x": {"dtype": "F32", "shape": [2**26], "data_offsets": [0, 2**28]}}
    tensors(header, behind=0)(model)
    file = model / PARAMETERS
    size = file.stat().st_size
    sealed(lambda _: os.truncate(file, size + 2**28))(model)  # sparse
    with pytest.raises(UserError, match=r"has 0\.3 GiB, more than the 0\.25 GiB of memory"):
        load(model, untrusted=Limits(memory=2**28))
