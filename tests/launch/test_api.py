"""`launch.api`: what the commands do, from Python, and what a notebook shows of it."""

import functools
import logging
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest

from attconv_jax.data.text import tokenize
from common_jax.errors import UserError
from common_jax.training.identity import SEED
from launch import api
from launch.train import __main__ as train
from tests.families.runs import FAMILIES
from tests.launch.commands import scores, toy_config
from tests.launch.tiny_runs import result

PAIR = "There are two red cups.\tThe shed has no cups."
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def state():
    """What of this process a call must leave as it is."""
    names = ["", "absl", "orbax", "jax", "launch", "common_jax", "attconv_jax"]
    loggers = [logging.getLogger(name) for name in names]
    logs = [(logger.level, logger.propagate, [*logger.handlers]) for logger in loggers]
    return [signal.getsignal(number) for number in SIGNALS], logs


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    """A folder with two runs, of which the second was trained in a thread; and the two."""
    folder = tiny("attconv", tmp_path_factory.mktemp("api"))
    _, file, *overrides = FAMILIES["attconv"].arguments(folder)[:-2]
    config = api.config(file, overrides)
    before = state()
    first = api.train(config, workdir=folder / "first")
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(api.train, config, {SEED: 1}, workdir=folder / "second")
    assert state() == before
    return folder, first, call.result()


def test_a_run_is_that_of_the_command_which_it_records(runs, capsys):
    folder, run, _ = runs
    by_command = result(folder / "run")
    assert run.result["parameters_sha256"] == by_command["parameters_sha256"]
    assert run.metrics == by_command["metrics"]
    recorded = run.result["command"].removeprefix("python -m launch.train ")
    capsys.readouterr()
    train.main(recorded.split())
    assert f"{run.path} is finished" in capsys.readouterr().out
    before = (run.path / "config.json").read_text()
    train.main([*recorded.split(), "--config.train.steps=2"])
    assert (run.path / "config.json").read_text() == before


def test_a_finished_run_is_read(runs):
    run = runs[1]
    again = api.Run(run)
    assert (again.metrics, again.scored) == (run.metrics, {})
    assert run.scored["test"].metrics == run.metrics["test"]
    assert [line["step"] for line in again.lines if "loss" in line] == [1, 2, 3, 4]
    assert f"accuracy {run.metrics['test']['accuracy']:.2f}" in repr(again)


def test_a_notebook_shows_scores_and_curves_in_a_style_of_their_own(runs):
    page = runs[1]._repr_html_()
    accuracy = runs[1].metrics["test"]["accuracy"]
    assert re.search(rf"{accuracy:.2f} \(\d+\.\d\d to \d+\.\d\d\)", page)
    assert page.count("<svg ") == 3 and "Validation by time" in page
    (style,) = re.findall("<style>(.*?)</style>", page, re.S)
    selectors = re.findall(r"([^{}]+)\{", style)
    assert selectors and all(one.strip().startswith(".conv-attention") for one in selectors)
    assert "prefers-color-scheme" not in page and "<script" not in page
    assert "#000000" not in page and "currentColor" in page


def test_scores_are_those_of_the_command(runs, capsys):
    _, run, other = runs
    scored = api.evaluate(run, against=other)
    printed = scores(capsys, run.path, "--against", other.path)
    assert {"split": "test", **scored.metrics, **scored.notes, **scored.tests} == printed
    assert f"{scored.metrics['accuracy']:.2f}" in scored._repr_html_()


def test_a_comparison_has_the_paired_tests(runs):
    _, run, other = runs
    comparison = api.compare(run, other)
    numbers = comparison.differences["second"].numbers
    results = [run.folder.example_results("test")["right"] for run in (run, other)]
    assert numbers["right_difference"] == pytest.approx(100 * (results[1] - results[0]).mean())
    assert numbers["wins"] == ((results[1] == 1) & (results[0] == 0)).sum()
    page = comparison._repr_html_()
    gap, low, high = (numbers[f"right_difference{end}"] for end in ("", "_low", "_high"))
    assert f"{gap:+.2f} ({low:+.2f} to {high:+.2f})" in page


def test_an_explanation_has_the_answer_and_a_picture_of_each_map(runs):
    explanation = api.explain(runs[1], PAIR)
    answer = explanation.answer
    assert answer.label == max(answer.probabilities, key=answer.probabilities.get)
    assert answer.words == [[*tokenize(text, "english")] for text in PAIR.split("\t")]
    assert len(explanation.pictures) == len(answer.layers[0]) > 0
    page = explanation._repr_html_()
    assert page.count("<svg ") == len(explanation.pictures) and f">{explanation.text}<" in page
    (plain,) = api.load(runs[1]).predict([PAIR])
    assert (plain.label, plain.layers) == (answer.label, None)


def test_a_config_has_the_fields_that_differ():
    config = api.config("attconv/quickstart", {"train.steps": 7, "data.batch_size": 9})
    default = api.config("attconv/quickstart")
    assert config.values.train.steps == 7
    assert config.differences()["train.steps"] == (default.values.train.steps, 7)
    assert default.differences() == {}
    cnn = api.config("attconv/quickstart:cnn")
    assert cnn.differences(default)["model.name"] == (
        default.values.model.name,
        cnn.values.model.name,
    )
    assert '<td class="number">7</td>' in config._repr_html_()
    assert config.describe().splitlines()[-1].startswith("total")


plan = functools.partial(api.plan_sweep, "attconv/quickstart")


@pytest.mark.parametrize(
    "call,message",
    [
        (lambda run: api.config("attconv/quickstrt"), "did you mean 'attconv/quickstart'"),
        (lambda run: api.train("attconv/quickstart", {"train.stepz": 1}), "did you mean 'steps'"),
        (lambda run: api.train("attconv/quickstart", workdir=run), "holds another run"),
        (lambda run: api.Run(run.path / "eval"), "not the folder of a run"),
        (lambda run: api.evaluate(), "name a run"),
        (lambda run: api.evaluate(run, split="trian"), "--split trian: must be dev | test"),
        (lambda run: api.evaluate(run, beam_size=3), "no option of decoding is named beam_size"),
        (lambda run: api.evaluate(run, name="a"), "--name goes with --workdir and --data"),
        (lambda run: api.compare(run, run), "given twice"),
        (lambda run: api.explain(run, "one text"), "a pair is 2 texts"),
        (lambda run: api.load(run, beam=3), "has no option beam"),
        (lambda run: api.Executor(asha=3), "goes with --executor ray"),
        (lambda run: plan({"model.dmi": [1]}, out="none"), "unknown config key 'model.dmi'"),
        (lambda run: plan({"model.dim": []}, out="none"), "at least one"),
    ],
)
def test_a_mistake_is_a_user_error(runs, call, message):
    with pytest.raises(api.UserError, match=re.escape(message)) as error:
        call(runs[1])
    assert error.value._render_traceback_() == [f"error: {error.value}"]


def test_a_sweep_is_planned_as_the_command_plans_it(tmp_path):
    grid = {"model.dim": [8, 16]}
    zipped = {"words.dim": [4, 6], "train.steps": [2, 3]}
    planned = plan(grid, zipped=zipped, seeds=2, out=tmp_path)
    values = [tuple(trial.values.values()) for trial in planned.trials]
    assert values == [
        (dim, *pair, seed) for dim in (8, 16) for pair in ((4, 2), (6, 3)) for seed in (0, 1)
    ]
    assert len(planned.unfinished) == 8 and planned.charts == [] and planned.runs == {}
    assert "<svg " not in planned._repr_html_()
    assert not [*tmp_path.iterdir()]


def test_a_config_file_is_executed_once(tmp_path, monkeypatch):
    file = Path(toy_config(tmp_path))
    log = tmp_path / "executed"
    file.write_text(f"{file.read_text()}\nopen({str(log)!r}, 'a').write('x')\n")
    config = api.config(str(file), {"train.steps": 3})
    assert config.differences() == {"train.steps": (100_000, 3)}
    assert api.plan_sweep(config, {"rate": [0.1, 0.2]}, seeds=2, out=tmp_path / "sweep").trials
    monkeypatch.setattr("launch.api.runs.take_steps", Mock(side_effect=UserError("no step")))
    with pytest.raises(UserError, match="no step"):
        api.train(config, workdir=tmp_path / "run")
    assert log.read_text() == "x"
