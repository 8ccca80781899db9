"""The training library on a toy task: what a run does, leaves behind, and survives."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from common_jax.errors import UserError
from common_jax.training import loop
from common_jax.training.config import MeshConfig, SourceConfig, TrainConfig
from common_jax.training.loop import train
from common_jax.training.run import load
from common_jax.training.workdir import Workdir
from tests.toy import Toy, ToyConfig, interrupted_after

TIMES = {"steps_per_second", "examples_per_second", "wall_seconds", "resumed_from"}


@pytest.fixture
def config(tmp_path):
    return ToyConfig(
        data=SourceConfig("generated", cache_dir=str(tmp_path / "cache")),
        train=TrainConfig(steps=23, evaluate_every=8, checkpoint_every=5, log_every=3),
        mesh=MeshConfig(data=1),
    )


def changed(config, section, **values):
    new = dataclasses.replace(getattr(config, section), **values)
    return dataclasses.replace(config, **{section: new})


def run(config, path):
    return train(Toy(config), Workdir(path))


def lines(path):
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


def numbers(path):
    """metrics.jsonl without times and restarts."""
    kept = [{k: v for k, v in line.items() if k not in TIMES} for line in lines(path)]
    return [line for line in kept if len(line) > 1]


@pytest.mark.parametrize(
    "devices,stops", [(1, [4]), (1, [22]), (1, [1, 6, 6, 6]), (1, [9, 2]), (8, [9, 2])]
)
def test_interrupted_and_resumed_is_bit_identical(config, tmp_path, monkeypatch, devices, stops):
    config = changed(config, "mesh", data=devices)
    whole = run(config, tmp_path / "whole")
    original = loop.stream
    for count in stops:
        monkeypatch.setattr(loop, "stream", interrupted_after(original, count))
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "broken")
    monkeypatch.setattr(loop, "stream", original)
    broken = run(config, tmp_path / "broken")
    assert broken.result["parameters_sha256"] == whole.result["parameters_sha256"]
    assert broken.result["metrics"] == whole.result["metrics"]
    assert numbers(tmp_path / "broken") == numbers(tmp_path / "whole")
    if max(stops) > 8:
        assert broken.result["resumed_from"]


def test_what_a_run_leaves_behind(config, tmp_path):
    config = changed(config, "train", best_metric="loss")
    outcome = run(config, tmp_path / "run")
    logged = lines(tmp_path / "run")
    assert [x["step"] for x in logged if "split" not in x] == [
        3,
        5,
        6,
        8,
        9,
        10,
        12,
        15,
        16,
        18,
        20,
        21,
        23,
    ]
    assert [x["step"] for x in logged if x.get("split") == "dev"] == [8, 16, 23]
    assert {
        "loss",
        "nll",
        "learning_rate",
        "grad_norm",
        "steps_per_second",
        "padding_fraction",
    } <= set(logged[0])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result == json.loads(json.dumps(outcome.result))
    assert result["steps"] == 23 and result["parameters"] == 44 and result["resumed_from"] == []
    dev = {x["step"]: x["loss"] for x in logged if x.get("split") == "dev"}
    assert result["best_step"] == min(dev, key=dev.get)
    assert result["metrics"]["dev"]["loss"] == pytest.approx(min(dev.values()), rel=1e-6)
    for split, count in (("dev", 29), ("test", 20)):
        metrics = json.loads((tmp_path / "run" / "eval" / f"{split}.json").read_text())
        assert metrics == result["metrics"][split]
        text = (tmp_path / "run" / "eval" / f"{split}.predictions.txt").read_text()
        assert len(text.splitlines()) == count
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert saved["version"] == 1 and saved["config"]["task"] == "tests.toy:Toy"
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_a_finished_run_is_not_repeated_and_more_steps_continue_it(config, tmp_path, monkeypatch):
    longer = changed(config, "train", steps=31)
    whole = run(longer, tmp_path / "whole")
    first = run(config, tmp_path / "run")
    monkeypatch.setattr(loop, "evaluate", lambda *args: pytest.fail("evaluated again"))
    assert run(config, tmp_path / "run").result == first.result
    monkeypatch.undo()
    continued = run(longer, tmp_path / "run")
    assert continued.result["resumed_from"] == [23]
    assert continued.result["steps"] == 31
    last = lambda path: [x for x in numbers(path) if x["step"] == 31]
    assert last(tmp_path / "run") == last(tmp_path / "whole")
    assert whole.result["steps"] == 31


def test_a_line_cut_short_by_a_kill_is_written_anew(config, tmp_path):
    whole = run(config, tmp_path / "whole")
    run(changed(config, "train", steps=16), tmp_path / "run")
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 17, "lo')
    again = run(config, tmp_path / "run")
    assert again.result["parameters_sha256"] == whole.result["parameters_sha256"]
    assert all("loss" in line or "resumed_from" in line for line in lines(tmp_path / "run"))


@pytest.mark.parametrize(
    "section,values,names",
    [
        ("train", {"seed": 1}, "train.seed"),
        ("data", {"on_bad_example": "skip"}, "data.on_bad_example"),
        ("optimizer", {"learning_rate": 0.5}, "optimizer.learning_rate"),
    ],
)
def test_a_folder_of_another_run_is_refused(config, tmp_path, section, values, names):
    Workdir(tmp_path / "run").claim(config)
    with pytest.raises(UserError, match=names):
        Workdir(tmp_path / "run").claim(changed(config, section, **values))


def test_mesh_rhythm_and_length_do_not_make_another_run(config, tmp_path):
    Workdir(tmp_path / "run").claim(config)
    other = changed(config, "mesh", data=2)
    other = changed(other, "train", steps=99, evaluate_every=2, checkpoint_every=3, log_every=4)
    Workdir(tmp_path / "run").claim(other)


def test_a_folder_of_something_else_is_refused_and_untouched(config, tmp_path):
    (tmp_path / "thesis.tex").write_text("hello")
    with pytest.raises(UserError, match="not the folder of a run"):
        Workdir(tmp_path).claim(config)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_unknown_best_metric_is_refused_before_anything_starts(config, tmp_path):
    with pytest.raises(UserError, match=r"train\.best_metric='bleu': must be loss | rounded"):
        run(changed(config, "train", best_metric="bleu"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_more_devices_than_there_are(config, tmp_path):
    with pytest.raises(UserError, match=r"mesh\.data=9: only 8 devices"):
        run(changed(config, "mesh", data=9), tmp_path / "run")


def test_load_gives_the_best_checkpoint_as_a_function_on_text(config, tmp_path):
    config = changed(config, "train", steps=400, evaluate_every=100, checkpoint_every=100)
    config = dataclasses.replace(changed(config, "optimizer", learning_rate=0.03), rate=0.0)
    run(config, tmp_path / "run")
    sums = [float(answer) for answer in load(tmp_path / "run").predict(["123", "999"])]
    np.testing.assert_allclose(sums, [6, 27], atol=0.5)


def test_load_of_what_is_no_run(tmp_path, config):
    with pytest.raises(UserError, match=r"no config\.json"):
        load(tmp_path)
    Workdir(tmp_path / "run").claim(config)
    (tmp_path / "run" / "vocabulary").mkdir()
    (tmp_path / "run" / "vocabulary" / "digits.txt").write_text("0123456789")
    with pytest.raises(UserError, match="no checkpoint"):
        load(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text('{"version": 7, "config": {}}')
    with pytest.raises(UserError, match="version 7"):
        load(tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"config\.json: cannot be read"):
        load(tmp_path / "run")


def test_eight_devices_see_the_same_rows_as_one(config, tmp_path):
    """12 rows do not divide by 8: filler rows must weigh nothing."""
    one = run(config, tmp_path / "one")
    eight = run(changed(config, "mesh", data=8), tmp_path / "eight")
    assert len(eight.result["devices"]) == 8
    pick = lambda path: np.array([[x["loss"], x["grad_norm"]] for x in lines(path) if "nll" in x])
    np.testing.assert_allclose(pick(tmp_path / "eight"), pick(tmp_path / "one"), rtol=1e-5)
    assert jax.tree.map(int, one.result["parameters"]) == eight.result["parameters"]
