"""Models by name, on a hub of this machine: pushed, loaded, loaded again, and refused."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest

from common_jax.deploy import hub as hub_names
from common_jax.deploy import load
from common_jax.deploy.format import Export
from common_jax.deploy.parameters import starting_parameters
from common_jax.errors import UserError
from common_jax.training.loop import train
from common_jax.training.run_writer import RunWriter
from launch.export import __main__ as export
from launch.predict import __main__ as predict
from tests.launch import commands
from tests.launch.corrupt_files import flipped, sealed, text, values
from tests.nightly.hub.pushed import LINES, NAME, UNREACHABLE, at
from tests.toy import Toy, changed, four_steps


def put(hub, source, change):
    """Commits a changed copy of an export under a new name; returns it."""
    copy = Path(shutil.copytree(source, f"{source}-{len(hub.commits)}"))
    change(copy)
    files = [path for path in copy.rglob("*") if path.is_file()]
    name = f"bob/model{len(hub.commits)}"
    hub.commit(name, {str(file.relative_to(copy)): file.read_bytes() for file in files})
    return f"hf://{name}@main"


def test_pushing_again_replaces_the_files(hub, folder, pushed, capsys):
    run, out = str(folder / "run"), str(folder / "again")
    argv = ["--workdir", run, "--out", out, "--format", "safetensors", "--push", "hf://ada/other"]
    hub.commit("ada/other", {"programs/old.stablehlo": b"x", "README.md": b"x"})
    export.main(argv)
    name = re.search(r"^pushed (hf://ada/other@[0-9a-f]{40})$", capsys.readouterr().out, re.M)[1]
    files = hub.commits["ada/other"][name.partition("@")[2]]
    assert "programs/old.stablehlo" not in files and "parameters.safetensors" in files
    assert Export(name).manifest.format == "safetensors"


def test_a_run_begins_with_a_model_by_name(folder, pushed, tmp_path):
    config = four_steps(tmp_path, init_from=pushed)
    task = Toy(changed(config, "optimizer", learning_rate=1e-12))
    train(task, RunWriter(tmp_path / "run"), starting_parameters=starting_parameters)
    assert list(load(tmp_path / "run").predict(LINES)) == list(load(folder / "run").predict(LINES))


def test_the_card_has_the_fields_of_a_hub(hub, folder, pushed):
    card = hub.commits["ada/adder"][pushed.partition("@")[2]]["README.md"].decode()
    lines = card.partition("---\n")[2].partition("\n---\n")[0].splitlines()
    split = (line.partition(": ") for line in lines)
    fields = {name: json.loads(value) for name, _, value in split}
    result = json.loads((folder / "run" / "result.json").read_text())["metrics"]
    assert fields["license"] == "apache-2.0" and fields["datasets"] == ["generated"]
    assert fields["language"] == ["und"] and "rounded" in fields["metrics"]
    scored = {
        entry["dataset"]["split"]: {m["type"]: m["value"] for m in entry["metrics"]}
        for entry in fields["model-index"][0]["results"]
    }
    assert scored["test"]["rounded"] == result["test"]["rounded"]
    assert f"python -m launch.predict --model {NAME}@main" in card


CHANGED = {  # changes of the pushed export
    "a changed byte": (
        lambda m: flipped(m / "parameters.safetensors"),
        "damaged export: parameters.safetensors: not the bytes that were saved",
    ),
    "a card without its fields": (
        sealed(text("README.md", "---\nlicense: mit\nlanguage: en\n---\n# A model\n")),
        "README.md: its head has no datasets; it needs license, language, datasets, metrics",
    ),
    "a card without a head": (sealed(text("README.md", "# A model")), "its head has no license"),
    "a class of another package": (
        sealed(values("config.json", config__task="json:JSONDecoder")),
        "config.json: task='json:JSONDecoder': of the package 'json'",
    ),
}


@pytest.mark.parametrize("what", CHANGED)
def test_a_forged_model_of_a_hub_is_one_line(hub, folder, pushed, what, monkeypatch, capsys):
    change, words = CHANGED[what]
    name = put(hub, folder / "export", change)
    line = commands.fails(monkeypatch, capsys, ["--model", name], predict.main)
    assert re.search(words, line)


@pytest.mark.parametrize(
    "name,words",
    [
        ("hf://ada/../x@main", "write hf://OWNER/NAME@REVISION"),
        (f"{NAME}@nowhere", f"{NAME}@nowhere: has no such revision"),
        (f"{NAME}@{'0' * 40}", "0000: has no such revision"),
        ("hf://ada/none@main", "no such model, or HF_TOKEN may not read it"),
    ],
)
def test_a_name_of_nothing_is_one_line(pushed, name, words, monkeypatch, capsys):
    assert words in commands.fails(monkeypatch, capsys, ["--model", name], predict.main)


@pytest.mark.parametrize("revision", ["main", "1" * 40])
def test_without_network_what_is_not_cached_is_one_line(revision, hub, monkeypatch, capsys):
    at(monkeypatch, UNREACHABLE)
    argv = ["--model", f"hf://ada/elsewhere@{revision}"]
    line = commands.fails(monkeypatch, capsys, argv, predict.main)
    assert f"hf://ada/elsewhere@{revision}: " in line and f"{UNREACHABLE} cannot be reached" in line


def test_a_model_that_is_too_large_is_not_downloaded(hub, folder, pushed, monkeypatch, capsys):
    name = put(hub, folder / "export", lambda model: (model / "more.txt").write_text("x"))
    hub.sizes["more.txt"] = 2**33
    hub.requests.clear()
    line = commands.fails(monkeypatch, capsys, ["--model", name], predict.main)
    hub.sizes.clear()
    assert "bytes; at most 4,294,967,296 are loaded by name" in line
    assert {path.split("/")[1] for _, path in hub.requests} == {"api"}


def test_without_the_extra_is_one_line(folder, monkeypatch, capsys):
    find = importlib.util.find_spec
    missing = lambda name: None if name == "huggingface_hub" else find(name)
    monkeypatch.setattr(hub_names.importlib.util, "find_spec", missing)
    words = r"needs? the extra hub \(.*hub.*\)"
    line = commands.fails(monkeypatch, capsys, ["--model", f"{NAME}@main"], predict.main)
    assert re.search(words, line)
    argv = ["--workdir", str(folder / "run"), "--out", str(folder / "x"), "--push", NAME]
    assert re.search(words, commands.fails(monkeypatch, capsys, argv, export.main))
    assert not (folder / "x").exists()


def test_a_push_that_is_refused_is_one_line_and_keeps_the_export(hub, folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    argv = ["--workdir", str(folder / "run"), "--out", str(folder / "kept"), "--push", NAME]
    argv += ["--format", "safetensors"]
    with pytest.raises(UserError, match="refused it: Invalid username or password"):
        export.main(argv)
    assert Export(folder / "kept").manifest.format == "safetensors"
