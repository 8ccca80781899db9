"""Runs commands in this process as the shell runs them."""

import io
import json
import os
import re
import subprocess
import sys

import pytest

from common_jax.deploy.format import FORMATS
from common_jax.training.config import parse
from launch import cli, evaluate, report
from launch.export import __main__ as export
from launch.predict import __main__ as predict
from launch.train import __main__ as train
from tests.launch.tiny_runs import ROOT


def arguments(config, folder, run="run", **changes):
    """Arguments of `launch.train`: a config with other fields, in the folder's workdir `run`.

    The data are in the folder, unless the config generates them.
    """
    source = changes.get("data.source") or parse(config, []).data.source
    values = {} if source == "generated" else {"data.dir": folder}
    values |= {"data.cache_dir": folder / "cache", **changes}
    if source != "generated":
        values.pop("data.examples", None)
    overrides = [f"--config.{key}={value}" for key, value in values.items()]
    return ["--config", config, *overrides, "--workdir", str(folder / run)]


def toy_config(folder, values=None):
    """Writes the config of the toy task, with changed fields; returns the file's name."""
    lines = [f"    config.{key} = {value!r}\n" for key, value in (values or {}).items()]
    (folder / "toy.py").write_text(_TOY + "".join(lines) + "    return config\n")
    return str(folder / "toy.py")


_TOY = """
from common_jax.config import to_config_dict
from tests.toy import ToyConfig


def get_config():
    config = to_config_dict(ToyConfig())
"""


def share_with_trials(monkeypatch):
    """Sets the environment of a sweep's processes: the tests' modules, not eight devices."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    flags = [flag for flag in os.environ["XLA_FLAGS"].split() if "device_count" not in flag]
    monkeypatch.setenv("XLA_FLAGS", " ".join(flags))


def fails(monkeypatch, capsys, argv, main=train.main):
    """Runs a command that must fail with status 2; returns its one line on standard error."""
    monkeypatch.setattr(sys, "argv", ["launch", *argv])
    with pytest.raises(SystemExit) as exit_:
        cli.run(main)
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    return line


def python(*words, stdin="", cwd=ROOT, **environment):
    """The status, the output and the messages of a Python process with these variables."""
    environment = {**os.environ, **environment}
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(
        command, input=stdin, env=environment, cwd=cwd, capture_output=True, encoding="utf-8"
    )
    return done.returncode, done.stdout, done.stderr


def answers(monkeypatch, capsys, lines, *argv):
    """The output of `launch.predict` for lines on its standard input."""
    text = "".join(f"{line}\n" for line in lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    capsys.readouterr()
    predict.main([*map(str, argv)])
    return capsys.readouterr().out.splitlines()


def scores(capsys, run, *argv):
    """What `launch.evaluate` prints of a run."""
    return _scores(capsys, "--workdir", run, *argv)


def squad_scores(capsys, predictions, *argv):
    """What `launch.evaluate` prints of a file of answers."""
    return _scores(capsys, "--task", "squad", "--predictions", predictions, *argv)


def _scores(capsys, *argv):
    capsys.readouterr()
    evaluate.main([*map(str, argv)])
    return json.loads(capsys.readouterr().out)


def exports(folder, *flags):
    """Exports a folder's run in the formats of all models; `flags` are for "stablehlo"."""
    folders = {}
    for form in FORMATS:
        folders[form] = folder / form
        own = flags if form == "stablehlo" else ()
        argv = ["--workdir", folder / "run", "--out", folders[form], "--format", form, *own]
        export.main([*map(str, argv)])
    return folders


def answered_without_a_model(model, lines, *flags):
    """Predictions of an export in a process that cannot import flax, Orbax, optax or a model."""
    text = "".join(f"{line}\n" for line in lines)
    words = ["-c", _WITHOUT_A_MODEL, "--model", model, *flags]
    status, out, errors = python(*words, stdin=text, JAX_COMPILATION_CACHE_DIR="")
    assert (status, errors) == (0, "")
    return out.splitlines()


def same_answers(actual, expected):
    """Whether the lines have the same JSON, up to rounding of numbers."""
    return [json.loads(a) for a in actual] == [close(json.loads(a)) for a in expected]


def close(value, within=2e-4):
    """JSON that is equal to this up to rounding of numbers."""
    if isinstance(value, dict):
        return {name: close(inner, within) for name, inner in value.items()}
    if isinstance(value, list):
        return [close(inner, within) for inner in value]
    return pytest.approx(value, abs=within) if isinstance(value, float) else value


_WITHOUT_A_MODEL = """
import re, sys

class Refused:
    def find_spec(self, name, *_):
        model = r"[a-z]+_jax[.](models?|layers|stack|attention|decode|task|config|training)([.].*)?"
        if name.split(".")[0] in ("flax", "orbax", "optax") or re.fullmatch(model, name):
            raise ImportError(f"{name} is model code")

sys.meta_path.insert(0, Refused())
from launch.predict import __main__ as predict
predict.main(sys.argv[1:])
"""


def example_results(run, split):
    """The table of a split's examples, numbers by column."""
    lines = (run / "eval" / f"{split}.examples.tsv").read_text().splitlines()
    head, *rows = (line.split("\t") for line in lines)
    columns = ([float(field) for field in column] for column in zip(*rows, strict=True))
    return dict(zip(head, columns, strict=True))


def labelled(run, split="test"):
    """Gold label, label and probabilities of each example of a classifier's split."""
    lines = (run / "eval" / f"{split}.predictions.tsv").read_text().splitlines()
    return [line.split("\t") for line in lines[1:]]


def reported(folder, *runs):
    """The page that `launch.report` writes of a folder's runs."""
    page = folder / "report.html"
    report.main([*(str(folder / run) for run in runs), "--out", str(page)])
    return page.read_text(encoding="utf-8")


def titles(page):
    """The headings of a page's sections."""
    return re.findall("<h2>(.*?)</h2>", page)
