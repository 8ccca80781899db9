"""The small trained models: their content, size, scores and answers; forged copies of them."""

import hashlib
import json
import os
import shutil
import struct
import subprocess
import urllib.request

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from common_jax.deploy import load
from common_jax.errors import UserError
from common_jax.export.child import Limits
from common_jax.export.format import Export
from common_jax.io import checksums
from common_jax.io.named import demos
from csan_jax.data.subwords import Subwords
from launch import predict
from launch.cli import module_command
from tests.launch import commands
from tests.launch.corrupt_files import sealed, tensors, text, values

LARGEST = 4_000_000  # bytes of all
CHECKSUMS = {  # SHA-256 of checksums.json
    "attconv": "6d90f12d00b14466f5c9b500b48390e1ee598dd5bf6cb5260b48d477a62581ad",
    "csan": "ab68b63f2432f9a926f16b92217d34b38fb2bc3c3b0f70c3698a98cea480fb22",
    "qanet": "00b3c65f1f474944d2f49e0f345299b58e768d3fae0a55f1bd7c8dd58b1c1571",
}
SCORES = {  # on test, those of the cards
    "attconv": {"accuracy": 97.3},
    "csan": {"sacrebleu": 97.45},
    "qanet": {"f1": 98.70},
}
PAIR = "The seven plates in the tent are all blue.\tThe tent has more than four plates."
ANSWERS = {
    "attconv": (PAIR, "label", "entailment"),
    "qanet": (
        '{"context": "Ada lives in Rome. Ben lives in Turin.", "question": "Who lives in Rome?"}',
        *("answer", "Ada"),
    ),
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
    for metric, value in SCORES[name].items():
        assert actual[metric] == pytest.approx(value, abs=0.005)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_demo_answers(name):
    line, field, expected = ANSWERS[name]
    (answer,) = load(f"demo:{name}").predict([line])
    assert getattr(answer, field) == expected


@pytest.mark.slow
def test_the_demo_translates():
    translations = load("demo:csan").predict(["In Vienna it is already nine o'clock."])
    assert [*map(str, translations)] == ["In Wien ist es schon neun Uhr."]


@pytest.mark.slow
def test_the_demos_are_served():
    command = [*module_command("serve"), "--demo", "--port", "0"]
    environment = os.environ | {"XLA_FLAGS": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        address = server.stdout.readline().partition(" at ")[2].strip()
        with urllib.request.urlopen(f"{address}v1/models", timeout=60) as response:
            names = [model["name"] for model in json.load(response)["models"]]
        server.terminate()
        assert server.wait(20) == 0
    assert sorted(names) == sorted(CHECKSUMS)


def test_an_unknown_demo_is_one_line(monkeypatch, capsys):
    line = commands.fails(monkeypatch, capsys, ["--model", "demo:csam"], predict.main)
    assert "demo:csam: no such model; did you mean 'csan'?" in line
    line = commands.fails(monkeypatch, capsys, ["--model", "demo:gpt"], predict.main)
    assert "no such model; there are demo:attconv, demo:csan, demo:qanet" in line


def huge(name):
    """Parameters of which the header declares 2^40 rows."""
    return tensors({name: {"dtype": "F32", "shape": [2**40, 64], "data_offsets": [0, 12]}})


def with_config(**changes):
    """A config in a format whose parameters are read by model code."""

    def change(model):
        values("export.json", format="safetensors", programs={})(model)
        values("config.json", **changes)(model)

    return sealed(change)


def more_words(model):
    file = model / "vocabulary" / "lexicon.json"
    saved = json.loads(file.read_text())
    first = max(saved["words"].values()) + 1
    saved["words"] |= {f"new{n}": first + n for n in range(1000)}
    file.write_text(json.dumps(saved))


def more_characters(model):
    file = model / "vocabulary" / "lexicon.json"
    saved = json.loads(file.read_text())
    file.write_text(json.dumps(saved | {"characters": [chr(0x4E00 + n) for n in range(3000)]}))


def more_pieces(model):
    random = np.random.default_rng(0)
    words = ["".join(random.choice([*"abcdefghijkl"], 6)) for _ in range(2000)]
    Subwords.train([" ".join(words)] * 2, 1200).save(model / "vocabulary" / "joint.model")


def fewer_rows(model):
    file = model / "parameters.safetensors"
    arrays = load_file(file)
    save_file(arrays | {"target_embedding": arrays["target_embedding"][:700]}, file)


TRIGRAMS = json.dumps([{"name": "attconv_jax.models.cdssm:LetterTrigrams", "most": 2**31 - 1}])
INCOMPLETE = "parameters.safetensors: not a complete safetensors file"
BYTE = "parameters.safetensors: not the bytes that were saved"
WIDE = "config.json: model.{}=2147483647: more than the export's parameters have"
FORGED = {
    ("csan", "a header of huge shapes"): (huge("target_embedding"), INCOMPLETE),
    ("csan", "a config of huge shapes"): (
        with_config(config__model__dim=2**31 - 1),
        WIDE.format("dim"),
    ),
    ("csan", "a config of many layers"): (
        with_config(config__model__encoder_layers=2**31 - 1),
        WIDE.format("encoder_layers"),
    ),
    ("csan", "a wrong checksum"): (
        text("parameters.safetensors", bytes(1551760)),
        BYTE,
    ),
    ("csan", "a larger vocabulary"): (
        sealed(more_pieces),
        "vocabulary: has 1,200 ids, but target_embedding has 800 rows",
    ),
    ("csan", "a smaller table"): (
        sealed(fewer_rows),
        "vocabulary: has 800 ids, but target_embedding has 700 rows",
    ),
    ("qanet", "a header of huge shapes"): (huge("word_embedding"), INCOMPLETE),
    ("qanet", "words of huge shapes"): (
        sealed(values("export.json", settings__word_length=2**31 - 1)),
        "export.json: word_length=2147483647: at most 1000",
    ),
    ("qanet", "a config of huge shapes"): (
        with_config(config__model__dim=2**31 - 1),
        WIDE.format("dim"),
    ),
    ("qanet", "a wrong checksum"): (text("parameters.safetensors", bytes(695576)), BYTE),
    ("qanet", "a larger vocabulary"): (sealed(more_words), "embedding has 450 rows"),
    ("qanet", "more characters"): (sealed(more_characters), "character_embedding has"),
    ("attconv", "a header of huge shapes"): (huge("word_embedding"), INCOMPLETE),
    ("attconv", "inputs of huge shapes"): (
        sealed(values("export.json", settings__inputs=TRIGRAMS)),
        "LetterTrigrams: 2147483647 numbers; at most 1000",
    ),
    ("attconv", "inputs that are no JSON"): (
        sealed(values("export.json", settings__inputs="[1")),
        "export.json: inputs: not a list of objects in JSON",
    ),
    ("attconv", "a config of huge shapes"): (
        with_config(config__model__dim=2**31 - 1),
        WIDE.format("dim"),
    ),
    ("attconv", "a wrong checksum"): (text("parameters.safetensors", bytes(850596)), BYTE),
    ("attconv", "a larger vocabulary"): (sealed(more_words), "word_embedding has 200 rows"),
    ("attconv", "a vocabulary of many hash buckets"): (
        sealed(values("vocabulary/lexicon.json", shared=2**40)),
        "ids, but word_embedding has 200 rows",
    ),
}


@pytest.mark.parametrize("case", FORGED, ids="-".join)
def test_a_forged_export_is_one_line_before_memory_is_taken(case, tmp_path, monkeypatch, capsys):
    change, words = FORGED[case]
    model = shutil.copytree(demos()[case[0]], tmp_path / "model")
    change(model)
    line = commands.fails(monkeypatch, capsys, ["--model", str(model)], predict.main)
    assert words in line and str(model) in line


def test_parameters_of_more_bytes_than_the_limit_are_refused(tmp_path):
    model = shutil.copytree(demos()["attconv"], tmp_path / "model")
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**26], "data_offsets": [0, 2**28]}})

    def change(folder):
        with (folder / "parameters.safetensors").open("wb") as file:
            file.write(struct.pack("<Q", len(header)) + header.encode())
            file.truncate(8 + len(header) + 2**28)  # sparse

    sealed(change)(model)
    with pytest.raises(UserError, match=r"has 0\.3 GiB, more than the 0\.25 GiB of memory"):
        load(model, untrusted=Limits(memory=2**28))
