"""`launch.export` and exports of a run of the toy task: content, use, refusals."""

import dataclasses
import hashlib
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import jax.export
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from common_jax.deploy import load
from common_jax.errors import UserError
from common_jax.training.loop import train
from common_jax.training.run_writer import RunWriter
from launch import evaluate, export, predict
from tests.launch import commands
from tests.launch.corrupt_files import sealed, values
from tests.toy import Toy, four_steps

LINES = ["123", "4567"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a run with a moving average, `run`, and of its exports."""
    folder = tmp_path_factory.mktemp("export")
    run = RunWriter(folder / "run")
    train(Toy(four_steps(folder, ema_decay=0.9)), run, "python -m launch.train ...")
    commands.exports(folder)
    return folder


@pytest.mark.parametrize("form", ["stablehlo", "safetensors", "orbax"])
def test_an_export_answers_as_the_run_does(folder, form, tmp_path, monkeypatch, capsys):
    moved = shutil.copytree(folder / form, tmp_path / "elsewhere")
    expected = commands.answers(monkeypatch, capsys, LINES, "--workdir", folder / "run")
    assert commands.answers(monkeypatch, capsys, LINES, "--model", moved) == expected
    assert [*map(str, load(moved).predict(LINES))] == expected


def test_a_later_start_needs_no_program(folder, tmp_path, monkeypatch):
    cache = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    try:
        expected = list(load(folder / "stablehlo").predict(LINES))
        damage = lambda *_: pytest.fail("was read again")
        monkeypatch.setattr("common_jax.export.stablehlo.Programs._program", damage)
        assert list(load(folder / "stablehlo").predict(LINES)) == expected
    finally:
        jax.config.update("jax_compilation_cache_dir", cache)


def test_parameters_have_their_names(folder):
    arrays = load_file(folder / "safetensors" / "parameters.safetensors")
    assert {name: array.shape for name, array in arrays.items()} == {
        "table/row": (10, 4),
        "out": (4,),
    }
    adder = list(load(folder / "run").predict(["12"]))
    assert f"{arrays['table/row'][[1, 2]].sum(axis=0) @ arrays['out']:.1f}" == str(adder[0])


def test_the_model_card(folder):
    card = (folder / "stablehlo" / "README.md").read_text()
    score = json.loads((folder / "run" / "result.json").read_text())["metrics"]["test"]["rounded"]
    for words in (
        "44 parameters of step ",
        "the best on dev, moving average",
        f"| test | rounded | {score:.2f} |",
        "python -m launch.train ...",
        "python -m launch.export --workdir",
        "python -m launch.predict --model stablehlo\n",
        "| source | `'generated'` |",
        "| digits | `1` |",
        f"| jax | {json.loads((folder / 'run' / 'result.json').read_text())['versions']['jax']} |",
    ):
        assert words in card


def test_unscored_parameters_have_no_score_in_the_card(folder, tmp_path):
    run = ["--workdir", str(folder / "run"), "--format", "safetensors", "--out"]
    export.main([*run, str(tmp_path / "plain"), "--no-ema"])
    export.main([*run, str(tmp_path / "mean"), "--average", "2"])
    read = lambda path: load_file(path / "parameters.safetensors")["table/row"]
    rows = [read(path) for path in (folder / "safetensors", tmp_path / "plain", tmp_path / "mean")]
    assert not any(np.array_equal(rows[a], rows[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    for name in ("plain", "mean"):
        assert "have not been scored" in (tmp_path / name / "README.md").read_text()
    evaluate.main(["--workdir", str(folder / "run"), "--average", "2"])
    export.main([*run, str(tmp_path / "scored"), "--average", "2"])
    assert "| test | rounded |" in (tmp_path / "scored" / "README.md").read_text()


@pytest.mark.parametrize("form", ["stablehlo", "safetensors", "orbax"])
def test_a_run_can_begin_with_an_export(folder, form, tmp_path):
    task = Toy(four_steps(tmp_path, init_from=str(folder / form)))
    shrunk = dataclasses.replace(task.config.optimizer, learning_rate=1e-12)
    task = Toy(dataclasses.replace(task.config, optimizer=shrunk))
    train(task, RunWriter(tmp_path / "run"))
    assert list(load(tmp_path / "run").predict(LINES)) == list(load(folder / form).predict(LINES))


def manifest(**changes):
    return values("export.json", **changes)


def flipped(path):
    """Flips one bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def other_shape(model):
    arrays = load_file(model / "parameters.safetensors")
    save_file(arrays | {"out": np.zeros(5, np.float32)}, model / "parameters.safetensors")


def other_names(model):
    arrays = load_file(model / "parameters.safetensors")
    save_file({f"x/{name}": a for name, a in arrays.items()}, model / "parameters.safetensors")


def native_call(model):
    """A program with jax's callback, as jax itself does not serialize one."""
    target = "xla_ffi_python_cpu_callback"
    call = lambda params, arrays: jax.ffi.ffi_call(target, jax.ShapeDtypeStruct((), "int32"))()
    unchecked = [jax.export.DisabledSafetyCheck.custom_call(target)]
    made = jax.export.export(jax.jit(call), disabled_checks=unchecked)({}, {})
    (model / PROGRAM).write_bytes(bytes(made.serialize()))


PROGRAM, SAFETENSORS = "programs/program.stablehlo", "parameters.safetensors"


def forged_checksums(name):
    files = {name: {"bytes": 1, "sha256": "0"}}
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    return json.dumps({"files": files, "sha256": digest})


# Changes of an export, and the message of each.
DAMAGED = {
    "gone": (shutil.rmtree, "no such folder"),
    "a file": (lambda m: (shutil.rmtree(m), m.write_text("x")), "not a folder"),
    "empty": (lambda m: (shutil.rmtree(m), m.mkdir()), r"not an export \(no export.json\)"),
    "half a manifest": (
        lambda m: (m / "export.json").write_text('{"version": 1,'),
        "export.json:1:15: not JSON",
    ),
    "a list": (
        lambda m: (m / "export.json").write_text("[]"),
        "export.json: a list where an object is needed",
    ),
    "ten thousand brackets": (
        lambda m: (m / "export.json").write_text("[" * 200_000),
        "export.json: not JSON that can be read",
    ),
    "a changed manifest": (manifest(settings={"digits": 2}), r"damaged export: export\.json"),
    "a flipped bit of the parameters": (
        lambda m: flipped(m / SAFETENSORS),
        "damaged export: parameters.safetensors: not the bytes that were saved",
    ),
    "half a program": (
        lambda m: (m / PROGRAM).write_bytes((m / PROGRAM).read_bytes()[:99]),
        "damaged export: programs/program.stablehlo: 99 bytes, not",
    ),
    "no vocabulary": (
        lambda m: shutil.rmtree(m / "vocabulary"),
        "damaged export: vocabulary/digits.txt: missing",
    ),
    "no checksums": (lambda m: (m / "checksums.json").unlink(), "checksums.json: missing"),
    "checksums of nothing": (
        lambda m: (m / "checksums.json").write_text("{}"),
        "damaged export: checksums.json: damaged",
    ),
    "a checksum of a name that no file has": (
        lambda m: (m / "checksums.json").write_text(forged_checksums("x\0y")),
        "damaged export: checksums.json: damaged",
    ),
    "a checksum of a name that is no text": (
        lambda m: (m / "checksums.json").write_text(forged_checksums("\ud800")),
        "damaged export: checksums.json: damaged",
    ),
    "a program more": (
        lambda m: (m / "programs" / "more.stablehlo").write_text("x"),
        "damaged export: programs/more.stablehlo: has no checksum",
    ),
}

# Invalid changes with matching checksums, and the message of each.
FOREIGN = {
    "newer": (manifest(version=2), r"version 2, of a newer release; this one reads 1"),
    "of no version": (manifest(version="1"), "version: a string where a whole number is needed"),
    "of version 0": (manifest(version=0), "version=0: at least 1"),
    "another format": (manifest(format="pickle"), r"format='pickle': must be stablehlo \|"),
    "an unknown field": (manifest(more=1), "unknown key 'more'"),
    "a predictor that is none": (
        manifest(predictor="os:system"),
        "predictor='os:system': not a predictor",
    ),
    "an unknown predictor": (
        manifest(predictor="nowhere_jax.model:Oracle"),
        "predictor='nowhere_jax.model:Oracle': no such predictor",
    ),
    "a setting of another type": (
        manifest(settings={"digits": "one"}),
        "settings.digits='one': expected int, got str",
    ),
    "an unknown setting": (manifest(settings={"digit": 1}), "did you mean 'digits'"),
    "other choices": (
        manifest(programs={"program.stablehlo": {"beam_size": 4}}),
        "has no program for no choice, but for beam_size=4",
    ),
    "a missing program": (
        manifest(programs={"other.stablehlo": {}}),
        "other.stablehlo: No such file",
    ),
    "no program": (
        lambda m: (m / PROGRAM).write_bytes(b"MLIR" * 99),
        "program.stablehlo: not a program that this jax can read",
    ),
    "native code": (
        native_call,
        "program.stablehlo: a call of 'xla_ffi_python_cpu_callback' is not allowed",
    ),
    "of a newer jax": (
        manifest(versions={"jax": "99.1.0"}),
        "made with jax 99.1.0, newer than this jax ",
    ),
    "parameters of another shape": (
        other_shape,
        r"parameters.safetensors: out: float32 \[5\], the model expects float32 \[4\]",
    ),
    "parameters of other names": (other_names, "out: missing, the model expects"),
    "a pickle": (
        lambda m: (m / SAFETENSORS).write_bytes(pickle.dumps({"out": [1.0]})),
        "not a complete safetensors file",
    ),
    "no step": (manifest(source={}), "source: step is missing"),
}


@pytest.mark.parametrize("what", [*DAMAGED, *FOREIGN])
def test_a_damaged_or_foreign_export_is_one_line(folder, what, tmp_path, monkeypatch, capsys):
    model = shutil.copytree(folder / "stablehlo", tmp_path / "model")
    change, words = (DAMAGED | FOREIGN)[what]
    change(model) if what in DAMAGED else sealed(change)(model)
    line = commands.fails(monkeypatch, capsys, ["--model", str(model)], predict.main)
    assert str(model) in line and re.search(words, line)


def test_an_untrusted_export_answers_the_same(folder, monkeypatch, capsys):
    model = folder / "stablehlo"
    expected = commands.answers(monkeypatch, capsys, LINES, "--model", model)
    limits = ["--untrusted", "--max_memory", "2", "--max_seconds", "60"]
    assert commands.answers(monkeypatch, capsys, LINES, "--model", model, *limits) == expected


@pytest.mark.parametrize(
    "where,words",
    [
        (["--workdir", "run"], "run: a run; only exports in the format stablehlo run in a process"),
        (["--model", "orbax"], "orbax: an export in the format orbax; only exports in the format"),
        (["--model", "stablehlo", "--max_seconds", "0"], "--max_seconds 0: above 0"),
    ],
)
def test_what_cannot_run_apart_is_one_line(folder, where, words, monkeypatch, capsys):
    flag, name, *more = where
    argv = [flag, str(folder / name), *more, "--untrusted"]
    assert words in commands.fails(monkeypatch, capsys, argv, predict.main)


@pytest.mark.parametrize("form", ["stablehlo", "safetensors", "orbax"])
def test_no_file_of_an_export_has_a_path_of_this_machine(folder, form):
    roots = [str(folder).encode(), str(Path(__file__).parents[2]).encode(), b".py\0"]
    files = [path for path in (folder / form).rglob("*") if path.is_file()]
    found = [(path.name, root) for path in files for root in roots if root in path.read_bytes()]
    assert len(files) >= 5 and not found
    text = json.loads((folder / form / "config.json").read_text())
    assert text["config"]["data"]["cache_dir"] == "cache"


@pytest.mark.parametrize(
    "change,words",
    [
        (other_shape, r"out: float32 \[5\], the model expects float32 \[4\]"),
        (lambda m: (m / "config.json").write_text("{"), "config.json:1:2: not JSON"),
        (values("config.json", config=[]), "config.json: config: a list where an object is needed"),
        (
            values("config.json", config__task="os:system"),
            "config.json: task='os:system': not a task",
        ),
    ],
)
def test_parameters_that_do_not_fit_are_one_line(
    folder, change, words, tmp_path, monkeypatch, capsys
):
    model = shutil.copytree(folder / "safetensors", tmp_path / "model")
    sealed(change)(model)
    line = commands.fails(monkeypatch, capsys, ["--model", str(model)], predict.main)
    assert re.search(words, line)


def test_no_code_of_an_export_is_run(folder, tmp_path):
    """Not even if its parent is the working directory, from which Python imports."""
    for name in ("bare", "package"):
        model = shutil.copytree(folder / "stablehlo", tmp_path / name)
        (model / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        if name == "package":
            (model / "__init__.py").write_text("from . import evil")
        sealed(manifest(predictor=f"{name}.evil:X"))(model)
        python = [sys.executable, "-c", f"import common_jax.deploy as p; p.load({name!r})"]
        path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(python, cwd=tmp_path, env=path, capture_output=True, text=True)
        refused = f"predictor='{name}.evil:X': no such predictor (not in an installed package"
        assert refused in done.stderr
        assert not (tmp_path / "ran").exists()


def test_a_program_that_does_not_fit_its_settings_is_reported(folder, tmp_path, monkeypatch):
    model = load(folder / "stablehlo")
    monkeypatch.setattr(model, "_add", lambda arrays, add=model._add: add({"digits": arrays}))
    with pytest.raises(UserError, match=r"program\.stablehlo: does not fit the export's settings"):
        list(model.predict(LINES))


def test_an_export_that_fails_leaves_nothing(folder, monkeypatch):
    before = sorted(folder.iterdir())
    monkeypatch.setattr(Toy, "serve", lambda *_: pytest.fail("no program"))
    with pytest.raises(pytest.fail.Exception):
        export.main(["--workdir", str(folder / "run"), "--out", str(folder / "x")])
    assert sorted(folder.iterdir()) == before


def test_a_full_disk_is_one_line(folder, monkeypatch):
    def full(*_):
        raise ValueError("OUT_OF_RANGE: Error writing [os_error_code='28']")

    monkeypatch.setattr("orbax.checkpoint.Checkpointer.save", full)
    out = str(folder / "x")
    with pytest.raises(UserError, match=f"{out}: cannot be written: No space left on device"):
        export.main(["--workdir", str(folder / "run"), "--out", out, "--format", "orbax"])


@pytest.mark.parametrize(
    "flags,words",
    [
        ("--out {folder}/run/config.json/x", "cannot be written"),
        ("--workdir {folder}/nowhere --out {folder}/x", "not the folder of a run"),
        ("--out {folder}/x --average 0", "--average: must be a whole number above 0, not '0'"),
        ("--out {folder}/x --count 3 --count 0", "--count: the predictor of .*/run has no such"),
        ("--out {folder}/x --beam_size 4", "--beam_size: the predictor of .*/run has no such"),
        (
            "--out {folder}/x --count 2 --format orbax",
            "--count: the predictor of .*/run has no such",
        ),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(folder, flags, words, monkeypatch, capsys):
    argv = f"--workdir {{folder}}/run {flags}".format(folder=folder).split()
    before = sorted(folder.iterdir())
    line = commands.fails(monkeypatch, capsys, argv, export.main)
    assert re.search(words, line)
    assert sorted(folder.iterdir()) == before


def test_a_run_without_an_average_exports_none(tmp_path, monkeypatch, capsys):
    train(Toy(four_steps(tmp_path)), RunWriter(tmp_path / "run"))
    argv = ["--workdir", str(tmp_path / "run"), "--out", str(tmp_path / "x"), "--ema"]
    capsys.readouterr()
    line = commands.fails(monkeypatch, capsys, argv, export.main)
    assert "has no moving average" in line


def test_the_oldest_jax_is_the_required_minimum():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert f"jax>={export.OLDEST_JAX}" in project["project"]["dependencies"]
