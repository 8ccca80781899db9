"""Exports with weights in bfloat16 and int8: size, answers, card, use, refusals."""

import dataclasses
import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from common_jax.deploy import load
from common_jax.export.child import Limits
from common_jax.export.weights import restored, stored
from common_jax.io.named import demos
from common_jax.io.parameters import read_safetensors, write_safetensors
from common_jax.training.loop import train
from common_jax.training.run_writer import RunWriter
from launch import export, predict
from tests.launch import commands
from tests.launch.corrupt_files import sealed, values
from tests.toy import Toy, four_steps

FORMATS, DTYPES = ("stablehlo", "safetensors"), ("float32", "bfloat16", "int8")
LINES = ["123", "4567", "9"]
PARAMETERS = "parameters.safetensors"
TASK = "tests.launch.test_small_exports:WideToy"


class WideToy(Toy):
    """A toy with a kernel and a table that are large enough to be converted."""

    def init(self, key):
        keys = jax.random.split(key)
        table = jax.random.normal(keys[0], (128, 16))
        kernel = 0.1 * jax.random.normal(keys[1], (16, 64))
        return {"digit_embedding": table, "out": {"kernel": kernel, "bias": jnp.ones(64)}}

    def _predict(self, params, batch):
        sums = params["digit_embedding"][batch["numbers"]].sum(axis=1)
        return (sums @ params["out"]["kernel"] * params["out"]["bias"][None]).sum(1)

    def loss(self, params, batch, key):
        valid = batch["index"] >= 0
        error = self._predict(params, batch) - batch["numbers"].sum(1).astype(jnp.float32)
        loss = jnp.sum(error**2, where=valid)
        return {"loss": loss, "nll": loss, "weight": valid.sum().astype(jnp.float32)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a run, `run`, and of its exports, FORMAT-DTYPE."""
    folder = tmp_path_factory.mktemp("small")
    train(
        WideToy(four_steps(folder, TASK)), RunWriter(folder / "run"), "python -m launch.train ..."
    )
    for form in FORMATS:
        for dtype in DTYPES:
            flags = ["--format", form, "--dtype", dtype]
            flags += ["--evaluate", "dev"] if dtype != "float32" else []
            argv = ["--workdir", str(folder / "run"), "--out", str(folder / f"{form}-{dtype}")]
            export.main([*argv, *flags])
    return folder


def numbers(answers):
    return np.array([float(line) for line in answers])


def weights(model):
    """The float32 arrays of an export, by NumPy."""
    arrays = load_file(model / PARAMETERS)
    scales = {name for name in arrays if name.endswith(".scale")}
    one = np.ones((), np.float32)
    return {
        name: array.astype(np.float32) * arrays.get(f"{name}.scale", one)
        for name, array in arrays.items()
        if name not in scales
    }


def sums(arrays, rows):
    table, kernel, bias = (arrays[n] for n in ("digit_embedding", "out/kernel", "out/bias"))
    return np.array([((table[row].sum(0) @ kernel) * bias).sum() for row in rows])


@pytest.mark.parametrize("form", FORMATS)
def test_a_smaller_type_takes_its_share_of_the_bytes(folder, form):
    sizes = [(folder / f"{form}-{dtype}" / PARAMETERS).stat().st_size for dtype in DTYPES]
    table, kernel, bias, header = 128 * 16, 16 * 64, 64, 400
    expected = [4, 2, 1] * np.array(table + kernel) + 4 * bias + [0, 0, 4 * (128 + 64)]
    assert np.all((expected < sizes) & (sizes < expected + header))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_answers_are_those_of_the_stored_weights(folder, form, dtype):
    model = folder / f"{form}-{dtype}"
    rows = [[int(c) for c in line] for line in LINES]
    expected = [f"{value:.1f}" for value in sums(weights(model), rows)]
    assert [*map(str, load(model).predict(LINES))] == expected
    near = sums(weights(folder / "safetensors-float32"), rows)
    np.testing.assert_allclose(numbers(expected), near, atol=0.5)
    if (form, dtype) == ("stablehlo", "int8"):
        assert [*map(str, load(model, untrusted=Limits()).predict(LINES))] == expected


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_the_card_compares_with_float32(folder, form, dtype):
    model = folder / f"{form}-{dtype}"
    card = (model / "README.md").read_text()
    rows = np.random.default_rng(0).integers(1, 10, (150, 3))[101:130]  # of dev
    before, after = (
        float(((sums(weights(path), rows) - rows.sum(1)) ** 2).mean())
        for path in (folder / "safetensors-float32", model)
    )
    loss = re.search(r"\| dev \| loss \| (.*) \| (.*) \| (.*) \|", card)
    assert [float(x) for x in loss.groups()] == pytest.approx(
        [before, after, after - before], abs=0.0051
    )
    scores = json.loads((folder / "run" / "eval" / "test.json").read_text())
    assert f"| test | loss | {scores['loss']:.2f} |  |  |" in card  # not measured
    index = json.loads(card.partition("model-index: ")[2].partition("\n")[0])
    (result,) = index[0]["results"]
    assert result["dataset"]["split"] == "dev"
    assert result["metrics"][0]["value"] == pytest.approx(after, abs=1e-3)
    assert f"stored in {dtype}, computed in float32" in card
    size = sum(array.nbytes for array in load_file(model / PARAMETERS).values())
    assert f"| bytes of the parameters | 12,544 | {size:,} |" in card
    assert ("seconds for 29 examples of dev |" in card) == (form == "stablehlo")


def test_weights_that_were_not_scored_have_no_score(folder, tmp_path):
    argv = ["--workdir", str(folder / "run"), "--out", str(tmp_path / "x"), "--dtype", "int8"]
    export.main(argv)
    card = (tmp_path / "x" / "README.md").read_text()
    assert "The weights in int8 have not been scored." in card
    assert "model-index" not in card and "seconds for" not in card


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_begins_with_the_restored_weights(folder, form, tmp_path):
    model = folder / f"{form}-int8"
    begun = four_steps(tmp_path, TASK, init_from=str(model))
    still = dataclasses.replace(begun.optimizer, learning_rate=1e-12)
    train(WideToy(dataclasses.replace(begun, optimizer=still)), RunWriter(tmp_path / "run"))
    assert list(load(tmp_path / "run").predict(LINES)) == list(load(model).predict(LINES))


def scaled(change):
    def forged(model):
        arrays = load_file(model / PARAMETERS)
        arrays["out/kernel.scale"] = change(arrays["out/kernel.scale"])
        save_file({n: a for n, a in arrays.items() if a is not None}, model / PARAMETERS)

    return sealed(forged)


def float_kernel(model):
    arrays = load_file(model / PARAMETERS)
    save_file(arrays | {"out/kernel": np.ones((16, 64), np.float32)}, model / PARAMETERS)


FORGED = {
    "a scale that is no number": (
        scaled(lambda scale: np.full_like(scale, np.nan)),
        r"out/kernel\.scale: a scale that is not positive and finite",
    ),
    "a scale of another shape": (
        scaled(lambda scale: np.ones((16, 1), np.float32)),
        r"out/kernel\.scale: float32 \[16, 1\], the model expects float32 \[1, 64\]",
    ),
    "a scale of another type": (
        scaled(lambda scale: scale.astype(np.float16)),
        r"out/kernel\.scale: float16 \[1, 64\], the model expects float32 \[1, 64\]",
    ),
    "no scale": (scaled(lambda _: None), r"out/kernel\.scale: missing, the model expects"),
    "a kernel in float32": (
        sealed(float_kernel),
        r"out/kernel: float32 \[16, 64\], the model expects int8 \[16, 64\]",
    ),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("what", FORGED)
def test_forged_weights_are_one_line(folder, form, what, tmp_path, monkeypatch, capsys):
    model = shutil.copytree(folder / f"{form}-int8", tmp_path / "model")
    change, words = FORGED[what]
    change(model)
    line = commands.fails(monkeypatch, capsys, ["--model", str(model)], predict.main)
    assert f"{model}/{PARAMETERS}: " in line and re.search(words, line)


def test_another_type_in_the_manifest_is_one_line(folder, tmp_path, monkeypatch, capsys):
    model = shutil.copytree(folder / "safetensors-int8", tmp_path / "model")
    sealed(values("export.json", dtype="bfloat16"))(model)
    line = commands.fails(monkeypatch, capsys, ["--model", str(model)], predict.main)
    assert "digit_embedding: int8 [128, 16], the model expects bfloat16 [128, 16]" in line


@pytest.mark.parametrize(
    "flags,words",
    [
        ("--dtype int8 --format orbax", "--dtype int8: --format orbax has float32"),
        (
            "--dtype bfloat16 --format ctranslate2",
            "--dtype bfloat16: --format ctranslate2 has float32 | int8",
        ),
        ("--dtype int4", "--dtype: invalid choice: 'int4'"),
        ("--evaluate dev", "--evaluate dev: goes with --dtype bfloat16 or int8"),
        ("--dtype int8 --evaluate tset", "--evaluate tset: must be dev | test"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(folder, flags, words, monkeypatch, capsys):
    argv = ["--workdir", str(folder / "run"), "--out", str(folder / "x"), *flags.split()]
    assert words in commands.fails(monkeypatch, capsys, argv, export.main)
    assert not (folder / "x").exists()


PAIR = "The seven plates in the tent are all blue.\tThe tent has more than four plates."
QUESTION = '{"context": "Ada lives in Rome. Ben lives in Turin.", "question": "Who lives in Rome?"}'
INPUTS = {
    "attconv": PAIR,
    "qanet": QUESTION,
    "csan": "In Vienna it is already nine o'clock.",
}


@pytest.mark.parametrize(
    "family", ["attconv", *(pytest.param(f, marks=pytest.mark.slow) for f in ("qanet", "csan"))]
)
def test_trained_models_answer_in_int8_as_in_float32(family, tmp_path):
    """With the restored weights in the place of the float32 ones."""
    model = shutil.copytree(demos()[family], tmp_path / "model")
    params = read_safetensors(model / PARAMETERS)

    def change(model):
        write_safetensors(restored(stored(params, "int8")), model / PARAMETERS)

    sealed(change)(model)
    (expected,), (actual,) = (
        load(path).predict([INPUTS[family]]) for path in (demos()[family], model)
    )
    if family == "csan":
        assert actual == expected
    else:
        assert actual.to_dict() == commands.close(expected.to_dict(), 0.05)
