"""Exports of a run of the toy task, also as earlier versions wrote them: content, use, refusals."""

import errno
import getpass
import hashlib
import json
import os
import pickle
import re
import shutil
import tomllib
from pathlib import Path

import jax
import jax.export
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from common_jax.config import SourceConfig
from common_jax.deploy import load
from common_jax.deploy.parameters import starting_parameters
from common_jax.deploy.service import service_of
from common_jax.errors import UserError
from common_jax.training.config import make_task
from common_jax.training.loop import train
from common_jax.training.run_folder import RunFolder
from common_jax.training.run_writer import RunWriter
from launch import evaluate
from launch.export import __main__ as export
from launch.predict import __main__ as predict
from tests.launch import commands, older_exports
from tests.launch.commands import ROOT
from tests.launch.corrupt_files import flipped, sealed, text, values
from tests.toy import Toy, ToyService, WideToy, changed, four_steps

LINES = ["123", "4567", "9"]
PROGRAM, PARAMETERS = "programs/program.stablehlo", "parameters.safetensors"
WRITTEN = ("stablehlo", "safetensors")
FORMATS = (*WRITTEN, "orbax")
SMALL = [f"{form}-{dtype}" for form in WRITTEN for dtype in ("bfloat16", "int8")]
TRUSTED = ["--untrusted", "--trust_package", "tests"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a run with a moving average, `run`, and of its exports, FORMAT[-DTYPE], also as
    earlier versions wrote them."""
    folder = tmp_path_factory.mktemp("export")
    config = four_steps(folder, "tests.toy:WideToy", ema_decay=0.9)
    train(WideToy(config), RunWriter(folder / "run"), "python -m launch.train --x /home/ada/x")
    commands.exports(folder)
    older_exports.write_orbax(folder / "safetensors", folder / "orbax")
    service = service_of(WideToy(config))
    for name in SMALL:
        form, dtype = name.split("-")
        program = (service.serve, service.inputs) if form == "stablehlo" else ()
        older_exports.write_in_type(folder / form, folder / name, dtype, *program)
    return folder


def weights(model):
    """The float32 arrays of an export, by NumPy."""
    arrays = load_file(model / PARAMETERS)
    one = np.ones((), np.float32)
    return {
        name: array.astype(np.float32) * arrays.get(f"{name}.scale", one)
        for name, array in arrays.items()
        if not name.endswith(".scale")
    }


def sums(model, rows):
    arrays = weights(model)
    table, kernel, bias = (arrays[n] for n in ("digit_embedding", "out/kernel", "out/bias"))
    return np.array([((table[row].sum(0) @ kernel) * bias).sum() for row in rows])


@pytest.mark.parametrize(
    "form,flags",
    [
        *((form, []) for form in FORMATS),
        *((form, TRUSTED) for form in WRITTEN),
    ],
)
def test_an_export_answers_as_the_run_does(folder, form, flags, tmp_path, monkeypatch, capsys):
    moved = shutil.copytree(folder / form, tmp_path / "elsewhere")
    expected = commands.answers(monkeypatch, capsys, LINES, "--workdir", folder / "run")
    assert commands.answers(monkeypatch, capsys, LINES, "--model", moved, *flags) == expected
    if not flags:
        assert [*map(str, load(moved).predict(LINES))] == expected


@pytest.mark.parametrize("name", [*FORMATS[:2], *SMALL])
def test_answers_are_those_of_the_stored_weights(folder, name):
    shapes = {"digit_embedding": (128, 16), "out/kernel": (16, 64), "out/bias": (64,)}
    assert {n: a.shape for n, a in weights(folder / name).items()} == shapes
    computed = sums(folder / name, [[int(c) for c in line] for line in LINES])
    expected = [f"{value:.1f}" for value in computed]
    assert [*map(str, load(folder / name).predict(LINES))] == expected
    near = sums(folder / "safetensors", [[int(c) for c in line] for line in LINES])
    np.testing.assert_allclose([*map(float, expected)], near, atol=0.5)
    untrusted = load(folder / name, untrusted=True, trusted_packages=["tests"])
    assert [*map(str, untrusted.predict(LINES))] == expected


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("stablehlo", "common_jax.deploy.stablehlo.Programs._program"),
        ("run", "tests.toy.WideToy.predict"),
    ],
)
def test_a_later_start_needs_no_program(
    folder, compilation_cache, settled_modules, monkeypatch, name, source
):
    expected = list(load(folder / name).predict(LINES))
    damage = lambda *_: pytest.fail("was read or traced again")
    monkeypatch.setattr(source, damage)
    assert list(load(folder / name).predict(LINES)) == expected


def test_the_model_card(folder):
    card = (folder / "stablehlo" / "README.md").read_text()
    result = json.loads((folder / "run" / "result.json").read_text())
    for words in (
        "3,136 parameters of step ",
        "the best on dev, moving average",
        f"| test | rounded | {result['metrics']['test']['rounded']:.2f} |",
        "python -m launch.train --x",
        "python -m launch.export --workdir",
        "python -m launch.predict --model stablehlo\n",
        "| source | `'generated'` |",
        f", jax {result['versions']['jax']}, ",
    ):
        assert words in card


def test_unscored_parameters_have_no_score_in_the_card(folder, tmp_path):
    def exported(name, *flags):
        argv = ["--workdir", folder / "run", "--format", "safetensors", "--out", tmp_path / name]
        export.main([*map(str, argv), *flags])
        return (tmp_path / name / "README.md").read_text()

    for name, flags in {"plain": ["--no-ema"], "mean": ["--average", "2"]}.items():
        assert "have not been scored" in exported(name, *flags)
    read = lambda path: load_file(path / PARAMETERS)["digit_embedding"]
    rows = [read(path) for path in (folder / "safetensors", tmp_path / "plain", tmp_path / "mean")]
    assert not any(np.array_equal(rows[a], rows[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    evaluate.main(["--workdir", str(folder / "run"), "--average", "2"])
    assert "| test | rounded |" in exported("scored", "--average", "2")


@pytest.mark.parametrize("name", [*FORMATS, "stablehlo-int8", "safetensors-int8"])
def test_a_run_can_begin_with_an_export(folder, name, tmp_path):
    begun = {"init_from": str(folder / name), "steps": 1, "evaluate_every": 1}
    config = four_steps(tmp_path, "tests.toy:WideToy", **begun)
    task = WideToy(changed(config, "optimizer", learning_rate=1e-12))
    train(task, RunWriter(tmp_path / "run"), starting_parameters=starting_parameters)
    assert list(load(tmp_path / "run").predict(LINES)) == list(load(folder / name).predict(LINES))


def manifest(**changes):
    return sealed(values("export.json", **changes))


def config(**changes):
    return sealed(values("config.json", **changes))


def arrays(change):
    """Changes the arrays of an export, which are a dict by name."""

    def forged(model):
        named = load_file(model / PARAMETERS)
        save_file(change(named), model / PARAMETERS)

    return sealed(forged)


def scales(change):
    return arrays(lambda named: named | {"out/kernel.scale": change(named["out/kernel.scale"])})


def native_call(model):
    """A program with jax's callback, as jax itself does not serialize one."""
    target = "xla_ffi_python_cpu_callback"
    call = lambda params, arrays: jax.ffi.ffi_call(target, jax.ShapeDtypeStruct((), "int32"))()
    unchecked = [jax.export.DisabledSafetyCheck.custom_call(target)]
    made = jax.export.export(jax.jit(call), disabled_checks=unchecked)({}, {})
    (model / PROGRAM).write_bytes(bytes(made.serialize()))


def checksums_of(name):
    files = {name: {"bytes": 1, "sha256": "0"}}
    digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    return text("checksums.json", json.dumps({"files": files, "sha256": digest}))


OTHER_SHAPE = arrays(lambda named: named | {"out/bias": np.zeros(5, np.float32)})
NO_SCALE = arrays(lambda named: {n: a for n, a in named.items() if n != "out/kernel.scale"})
FLOATS = arrays(lambda named: named | {"out/kernel": np.ones((16, 64), np.float32)})
SHAPE = r"out/bias: float32 \[5\], the model expects float32 \[64\]"
WITH_SCALES = {
    "a scale of another shape": (
        scales(lambda scale: np.ones((16, 1), np.float32)),
        r"kernel\.scale: float32 \[16, 1\], the model expects float32 \[1, 64\]",
    ),
    "no scale": (NO_SCALE, rf"{PARAMETERS}: out/kernel\.scale: missing, the model expects"),
    "float32": (FLOATS, r"kernel: float32 \[16, 64\], the model expects int8 \[16, 64\]"),
}
DAMAGED = {  # the checksums stay
    "gone": (shutil.rmtree, "no such folder"),
    "a file": (lambda m: (shutil.rmtree(m), m.write_text("x")), "not a folder"),
    "empty": (lambda m: (shutil.rmtree(m), m.mkdir()), r"no export\.json"),
    "half a manifest": (text("export.json", '{"version": 1,'), "export.json:1:15:"),
    "a list": (text("export.json", "[]"), "export.json: a list"),
    "deep": (text("export.json", "[" * 200_000), "export.json: not JSON"),
    "a changed manifest": (values("export.json", settings={}), "damaged .*: export.json"),
    "a flipped bit": (lambda m: flipped(m / PARAMETERS), f"{PARAMETERS}: not the bytes"),
    "half a program": (lambda m: os.truncate(m / PROGRAM, 99), f"damaged .*: {PROGRAM}: 99 bytes"),
    "no vocabulary": (lambda m: shutil.rmtree(m / "vocabulary"), "vocabulary/digits.txt: missing"),
    "no checksums": (lambda m: (m / "checksums.json").unlink(), "checksums.json: missing"),
    "empty checksums": (text("checksums.json", "{}"), "checksums.json: damaged"),
    "a checksum of no file": (checksums_of("x\0y"), "checksums.json: damaged"),
    "a checksum of no text": (checksums_of("\ud800"), "checksums.json: damaged"),
    "another program": (text("programs/more.stablehlo", "x"), "more.stablehlo: has no checksum"),
}
FORGED = {
    "stablehlo": DAMAGED
    | {
        "newer": (manifest(version=2), "version 2, of a newer release"),
        "of no version": (manifest(version="1"), "version: a string"),
        "of version 0": (manifest(version=0), "version=0: at least 1"),
        "another format": (manifest(format="pickle"), "format='pickle': has no parameters"),
        "an unknown field": (manifest(more=1), "unknown key 'more'"),
        "a foreign predictor": (manifest(predictor="os:system"), "='os:system': not a predictor"),
        "no predictor": (manifest(predictor="x_jax.y:Z"), "='x_jax.y:Z': no such predictor"),
        "another type": (manifest(settings={"digits": "one"}), "digits='one': expected int"),
        "an unknown setting": (manifest(settings={"digit": 1}), "did you mean 'digits'"),
        "other choices": (
            manifest(programs={"program.stablehlo": {"beam_size": 4}}),
            "no program for no choice, but for beam_size=4",
        ),
        "a missing program": (manifest(programs={"b.stablehlo": {}}), "b.stablehlo: No such file"),
        "no program": (sealed(text(PROGRAM, "MLIR" * 99)), f"{PROGRAM}: not a program that"),
        "native code": (sealed(native_call), f"{PROGRAM}: a call of 'xla_ffi_python_cpu_callback'"),
        "of a newer jax": (manifest(versions={"jax": "99.1.0"}), "with jax 99.1.0, newer"),
        "parameters of another shape": (OTHER_SHAPE, f"{PARAMETERS}: {SHAPE}"),
        "parameters of other names": (
            arrays(lambda named: {f"x/{name}": array for name, array in named.items()}),
            "digit_embedding: missing, the model expects",
        ),
        "a pickle": (sealed(text(PARAMETERS, pickle.dumps([1.0]))), "not a complete safetensors"),
        "no step": (manifest(source={}), "source: step is missing"),
    },
    "safetensors": {
        "parameters of another shape": (OTHER_SHAPE, SHAPE),
        "another type": (manifest(settings={"digits": "one"}), "digits='one': expected int"),
        "half a config": (sealed(text("config.json", "{")), "config.json:1:2:"),
        "a list": (config(config=[]), "config.json: config: a list"),
        "no task": (config(config__task="os:system"), "config.json: task='os:system': not a task"),
    },
    "stablehlo-int8": WITH_SCALES,
    "safetensors-int8": WITH_SCALES
    | {
        "another type in the manifest": (
            manifest(dtype="bfloat16"),
            r"digit_embedding: int8 \[128, 16\], the model expects bfloat16 \[128, 16\]",
        ),
    },
}


@pytest.mark.parametrize("name,what", [(name, what) for name in FORGED for what in FORGED[name]])
def test_a_damaged_or_foreign_export_is_one_line(folder, name, what, tmp_path, monkeypatch, capsys):
    model = shutil.copytree(folder / name, tmp_path / "model")
    change, words = FORGED[name][what]
    change(model)
    line = commands.fails(monkeypatch, capsys, ["--model", str(model)], predict.main)
    assert str(model) in line and re.search(words, line)


@pytest.mark.parametrize("form", WRITTEN)
def test_no_file_of_an_export_has_a_path_or_a_user_of_this_machine(folder, form):
    user = getpass.getuser()
    files = [path for path in (folder / form).rglob("*") if path.is_file()]
    assert len(files) >= 5
    for path in files:
        content = path.read_bytes()
        for root in (folder, ROOT, Path.home()):
            assert str(root).encode() not in content
        assert b".py\0" not in content
        if path.suffix in (".json", ".md", ".txt", ".stablehlo"):
            assert not re.search(rf"[\s\"'=`(]/[\w.-]+/|\b{re.escape(user)}\b".encode(), content)
    saved = json.loads((folder / form / "config.json").read_text())
    assert saved["config"]["data"]["cache_dir"] == "cache"

    # which is not a folder of the reader's: its corpora are in the default one
    assert make_task(RunFolder(folder / form)).config.data.cache_dir == SourceConfig.cache_dir
    assert make_task(RunFolder(folder / "run")).config.data.cache_dir != SourceConfig.cache_dir


LOADS = """
import sys
import common_jax.deploy
from common_jax.errors import UserError
for name in sys.argv[1:]:
    try:
        common_jax.deploy.load(name)
    except UserError as error:
        print(error)
"""


def test_no_code_of_an_export_is_run(folder, tmp_path):
    """Not even if its parent is the working directory, from which Python imports."""
    names = ["bare", "package"]
    for name in names:
        model = shutil.copytree(folder / "stablehlo", tmp_path / name)
        (model / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        if name == "package":
            (model / "__init__.py").write_text("from . import evil")
        manifest(predictor=f"{name}.evil:X")(model)
    _, out, _ = commands.python("-c", LOADS, *names, cwd=tmp_path, PYTHONPATH=str(ROOT))
    for name in names:
        refused = f"predictor='{name}.evil:X': no such predictor (not in an installed package"
        assert refused in out
    assert not (tmp_path / "ran").exists()


def test_a_program_that_does_not_fit_its_settings_is_reported(folder, monkeypatch):
    model = load(folder / "stablehlo")
    monkeypatch.setattr(model, "_add", lambda arrays, add=model._add: add({"digits": arrays}))
    with pytest.raises(UserError, match=r"program\.stablehlo: does not fit the export's settings"):
        list(model.predict(LINES))


def test_an_export_that_fails_leaves_nothing(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(folder.iterdir())
    argv = ["--workdir", str(folder / "run"), "--out", str(folder / "x")]
    monkeypatch.setattr(ToyService, "serve", lambda *_: pytest.fail("no program"))
    with pytest.raises(pytest.fail.Exception):
        export.main(argv)
    monkeypatch.setattr("launch.export.write.write_safetensors", full)
    with pytest.raises(UserError, match=f"{folder}/x: cannot be written: No space left on device"):
        export.main([*argv, "--format", "safetensors"])
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "command,flags,words",
    [
        (predict, "--workdir {run} --untrusted", "run: not an export"),
        (predict, "--model {folder}/orbax --untrusted", "orbax: .* orbax without safetensors"),
        (predict, "--model {folder}/stablehlo --untrusted", "config.json: task=.* --trust_package"),
        (export, "--workdir {run} --out {run}/config.json/x", "cannot be written"),
        (export, "--workdir {folder}/nowhere --out {folder}/x", "not the folder of a run"),
        *(
            (export, f"--workdir {{run}} --out {{folder}}/x {flags}", words)
            for flags, words in {
                "--average 0": "--average: must be a whole number above 0, not '0'",
                "--count 3 --count 0": "--count: the predictor of .*/run has no such",
                "--beam_size 4": "--beam_size: the predictor of .*/run has no such",
                "--format ctranslate2": r"--format: invalid choice: 'ctranslate2'",
                "--dtype int4 --format safetensors": "int4: --format safetensors has float32",
            }.items()
        ),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    folder, command, flags, words, monkeypatch, capsys
):
    argv = flags.format(folder=folder, run=folder / "run").split()
    before = sorted(folder.iterdir())
    assert re.search(words, commands.fails(monkeypatch, capsys, argv, command.main))
    assert sorted(folder.iterdir()) == before


def test_a_run_without_an_average_exports_none(tmp_path, monkeypatch, capsys):
    train(Toy(four_steps(tmp_path, steps=1, evaluate_every=1)), RunWriter(tmp_path / "run"))
    argv = ["--workdir", str(tmp_path / "run"), "--out", str(tmp_path / "x"), "--ema"]
    capsys.readouterr()
    assert "no moving average" in commands.fails(monkeypatch, capsys, argv, export.main)


def test_the_oldest_jax_is_the_required_minimum():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert f"jax>={export.OLDEST_JAX}" in project["project"]["dependencies"]
