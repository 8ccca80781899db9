"""The training loop on a toy task: results, files, resumption and requests to stop."""

import contextlib
import functools
import json
import re
import shutil
import signal
import time
from collections import Counter

import numpy as np
import pytest

from common_jax.config import MeshConfig, SourceConfig, TrainConfig
from common_jax.data.batches import group_steps
from common_jax.deploy.parameters import read_parameters, starting_parameters
from common_jax.errors import Interrupted, UserError
from common_jax.io import bucket_state
from common_jax.training import loop, preemption
from common_jax.training.checkpoint import Checkpoints
from common_jax.training.config import read_task
from common_jax.training.loop import train
from common_jax.training.mesh import make_mesh
from common_jax.training.preemption import PreemptionHandler
from common_jax.training.run_writer import RunWriter
from common_jax.training.scored_run import not_finite
from common_jax.training.state import abstract_state
from tests.launch.tiny_runs import lines, numbers
from tests.toy import Toy, ToyConfig, changed


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    rhythm = {"steps": 23, "evaluate_every": 8, "checkpoint_every": 5, "log_every": 3}
    return ToyConfig(
        data=SourceConfig("generated", cache_dir=str(tmp_path_factory.mktemp("cache"))),
        train=TrainConfig(keep_checkpoints=3, **rhythm),
        mesh=MeshConfig(data=1),
    )


def run(config, path):
    return train(Toy(config), RunWriter(path), starting_parameters=starting_parameters)


@pytest.fixture(scope="module")
def complete(config, tmp_path_factory):
    """An uninterrupted run for a number of devices, as (folder, result); shared by all tests."""

    @functools.cache
    def on(devices=1):
        folder = tmp_path_factory.mktemp("complete")
        return folder, run(changed(config, "mesh", data=devices), folder).result

    return on


@contextlib.contextmanager
def stopped_after(count, number=None):
    """A signal during the step after the first `count`, or a KeyboardInterrupt before it."""

    def stream(*args, batches=loop.stream):
        for index, item in enumerate(batches(*args)):
            if index == count:
                if number is None:
                    raise KeyboardInterrupt
                signal.raise_signal(number)
            yield item

    error = KeyboardInterrupt if number is None else Interrupted
    with pytest.MonkeyPatch.context() as patch, pytest.raises(error) as caught:
        patch.setattr(loop, "stream", stream)
        yield caught


@pytest.mark.parametrize(
    ("devices", "stops", "resumed_from"),
    [(1, [1, 9, 13], [8, 20]), pytest.param(8, [9], [8], marks=pytest.mark.slow)],
)
def test_interrupted_and_resumed_is_bit_identical(
    config, complete, tmp_path, devices, stops, resumed_from
):
    """Stops before the first checkpoint, and in a later epoch after several restarts."""
    config = changed(config, "mesh", data=devices)
    folder, expected = complete(devices)
    for count in stops:
        with stopped_after(count):
            run(config, tmp_path)
    broken = run(config, tmp_path).result
    assert all(broken[key] == expected[key] for key in ("parameters_sha256", "metrics"))
    assert numbers(tmp_path) == numbers(folder)
    assert broken["resumed_from"] == resumed_from


def test_what_a_run_leaves_behind(complete):
    folder, outcome = complete()
    logged = lines(folder)
    due = {*range(3, 23, 3), *range(5, 23, 5), 8, 16, 23}  # log lines, checkpoints, validations
    assert [x["step"] for x in logged if "split" not in x] == sorted(due)
    assert [x["step"] for x in logged if x.get("split") == "dev"] == [8, 16, 23]
    numbers_of_a_step = {"loss", "nll", "learning_rate", "grad_norm", "steps_per_second"}
    assert numbers_of_a_step | {"padding_fraction"} <= set(logged[0])
    result = json.loads((folder / "result.json").read_text())
    assert result == json.loads(json.dumps(outcome))
    assert "warnings" not in result
    assert result["steps"] == 23 and result["parameters"] == 44 and result["resumed_from"] == []
    dev = {x["step"]: x["loss"] for x in logged if x.get("split") == "dev"}
    assert result["best_step"] == min(dev, key=dev.get)
    assert result["metrics"]["dev"]["loss"] == pytest.approx(min(dev.values()), rel=1e-6)
    for split, count in (("dev", 29), ("test", 20)):
        metrics = json.loads((folder / "eval" / f"{split}.json").read_text())
        assert metrics == {**result["metrics"][split], "step": result["best_step"]}
        text = (folder / "eval" / f"{split}.predictions.txt").read_text()
        assert len(text.splitlines()) == count
    saved = json.loads((folder / "config.json").read_text())
    assert saved["version"] == 1 and saved["config"]["task"] == "tests.toy:Toy"
    assert list((folder / "tensorboard").iterdir())


def test_a_finished_run_is_not_repeated_and_more_steps_continue_it(
    config, complete, tmp_path, monkeypatch
):
    """A line of the log truncated by a kill is rewritten."""
    expected, result = complete()
    shorter = changed(config, "train", steps=16)
    first = run(shorter, tmp_path / "run")
    monkeypatch.setattr(loop, "evaluate", lambda *args: pytest.fail("evaluated again"))
    assert run(shorter, tmp_path / "run").result == first.result
    monkeypatch.undo()
    with (tmp_path / "run" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 17, "lo')
    continued = run(config, tmp_path / "run").result
    assert continued["resumed_from"] == [16] and continued["steps"] == 23
    assert continued["parameters_sha256"] == result["parameters_sha256"]
    last = lambda path: [x for x in numbers(path) if x["step"] == 23]
    assert last(tmp_path / "run") == last(expected)
    assert all("loss" in line or "resumed_from" in line for line in lines(tmp_path / "run"))


def test_which_fields_make_another_run(config, tmp_path):
    """Not those of the mesh, the rhythm and the length."""
    workdir = RunWriter(tmp_path)
    workdir.claim(config)
    (tmp_path / "checkpoints" / "1").mkdir(parents=True)
    for section, name, value in (("train", "seed", 1), ("data", "on_bad_example", "skip")):
        with pytest.raises(UserError, match=rf"{section}\.{name}"):
            workdir.claim(changed(config, section, **{name: value}))
    later = changed(config, "optimizer", cooldown_start=4)  # its length is derived
    with pytest.raises(UserError, match=r"differs in optimizer\.cooldown_start: "):
        workdir.claim(later, new_schedule=False)
    workdir.claim(later, new_schedule=True)
    workdir.claim(later, new_schedule=False)
    rhythm = {"steps": 99, "evaluate_every": 2, "checkpoint_every": 3, "log_every": 4}
    workdir.claim(changed(changed(config, "mesh", data=2), "train", **rhythm))


def rates(folder):
    return {x["step"]: x["learning_rate"] for x in lines(folder) if "learning_rate" in x}


def test_a_longer_run_keeps_its_schedule_unless_a_new_one_is_asked_for(config, tmp_path, capsys):
    """The recorded cooldown ends at step 8; that of the config follows train.steps."""
    short = changed(changed(config, "optimizer", cooldown=0.5), "train", steps=8, log_every=1)
    run(short, tmp_path / "old")
    peak, expected = short.optimizer.learning_rate, {4: 1, 5: 0.75, 6: 0.5, 7: 0.25, 8: 0}
    logged = rates(tmp_path / "old")
    assert {n: logged[n] / peak for n in expected} == pytest.approx(expected)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    longer = changed(short, "train", steps=16)
    capsys.readouterr()
    run(longer, tmp_path / "old")
    assert "the learning rate is 0 from step 8 on" in capsys.readouterr().err
    assert [rates(tmp_path / "old")[n] for n in range(9, 17)] == [0.0] * 8
    train(Toy(longer), RunWriter(tmp_path / "new"), new_schedule=True)
    assert "learning rate is 0" not in capsys.readouterr().err
    later = [rates(tmp_path / "new")[n] / peak for n in range(9, 17)]
    assert later == pytest.approx([1 - k / 8 for k in range(1, 9)])
    other = changed(changed(longer, "train", steps=24), "optimizer", cooldown=0.25)
    with pytest.raises(UserError, match=r"cooldown=0\.25, not the run's 0\.5: --new_schedule "):
        run(other, tmp_path / "old")


@pytest.mark.parametrize(
    "section,values,message",
    [
        ("optimizer", {"cooldown_start": 2, "cooldown_steps": 2}, r"^train\.steps=23: .* step 4"),
        ("train", {"init_from": "nowhere"}, "nowhere: not the folder of a run"),
    ],
)
def test_a_refused_run_leaves_its_folder_free(config, tmp_path, section, values, message):
    with pytest.raises(UserError, match=message):
        run(changed(config, section, **values), tmp_path)
    run(changed(config, "train", steps=1), tmp_path)


def test_eight_devices_see_the_same_rows_as_one(complete):
    """12 rows do not divide by 8: filler rows must weigh nothing."""
    (one, result), (eight, eights) = complete(1), complete(8)
    assert len(eights["devices"]) == 8
    pick = lambda path: np.array([[x["loss"], x["grad_norm"]] for x in lines(path) if "nll" in x])
    np.testing.assert_allclose(pick(eight), pick(one), rtol=1e-5)
    assert result["parameters"] == eights["parameters"]


@pytest.mark.parametrize(
    "losses,steps", [([5, 4, 3, 2, 1], 5), ([5, 4, 6, 7, 1], 4), ([5, 6, 5, 1, 1], 3)]
)
def test_a_run_stops_when_validations_bring_nothing_better(
    config, tmp_path, monkeypatch, losses, steps
):
    config = changed(config, "train", steps=5, evaluate_every=1, patience=2)
    values = iter([*losses[:steps], 0, 0])
    score = lambda *_: loop.Scores({"loss": float(next(values)), "rounded": 0.0}, {}, {}, [])
    monkeypatch.setattr(loop, "evaluate", score)
    result = run(config, tmp_path / "run").result
    assert result["steps"] == steps and result["stopped_early"] == (steps < 5)
    monkeypatch.setattr(loop, "evaluate", lambda *args: pytest.fail("evaluated again"))
    assert run(config, tmp_path / "run").result == result


def test_a_validation_at_the_end_alone_does_not_stop_the_run_that_is_continued(
    config, tmp_path, monkeypatch
):
    shorter = changed(config, "train", steps=5, evaluate_every=4, patience=1)
    for steps, losses in ((5, [4, 5, 4, 4]), (8, [3, 3, 3])):
        values = iter(losses)
        score = lambda *_, of=values: loop.Scores({"loss": float(next(of))}, {}, {}, [])
        monkeypatch.setattr(loop, "evaluate", score)
        result = run(changed(shorter, "train", steps=steps), tmp_path).result
        assert (result["steps"], result["stopped_early"]) == (steps, False)
    assert result["best_step"] == 8


@pytest.mark.parametrize("number,per_call", [(signal.SIGTERM, 1), (signal.SIGINT, 4)])
def test_a_request_to_stop_is_answered_after_the_step(config, complete, tmp_path, number, per_call):
    config = changed(config, "train", steps_per_call=per_call, checkpoint_every=8, log_every=4)
    expected = complete()[1] if per_call == 1 else run(config, tmp_path / "complete").result
    handler = signal.getsignal(number)
    with stopped_after(10, number) as caught:
        run(config, tmp_path / "run")
    assert re.match(r"stopped at step 1\d, which is saved", str(caught.value))
    assert caught.value.signal == number and signal.getsignal(number) == handler
    again = run(config, tmp_path / "run").result
    stopped = 11 if per_call == 1 else 12
    assert again["resumed_from"] == [stopped]
    assert again["parameters_sha256"] == expected["parameters_sha256"]

    # nothing of the log is lost
    (line,) = [x for x in lines(tmp_path / "run") if x["step"] == stopped and "loss" in x]
    assert 0 < line["wall_seconds"] < again["wall_seconds"]


def test_a_run_beyond_its_steps_is_refused(config, tmp_path):
    with stopped_after(10, signal.SIGTERM):
        run(config, tmp_path)
    with pytest.raises(UserError, match=r"is at step 11, beyond train\.steps=9: "):
        run(changed(config, "train", steps=9), tmp_path)
    assert run(changed(config, "train", steps=11), tmp_path).result["steps"] == 11


def test_a_request_during_a_validation_is_answered_at_once(config, complete, tmp_path, monkeypatch):
    """In the first, a middle and the last validation; the next run begins with it."""
    original = loop.evaluate
    for number, step in ((1, 8), (2, 16), (2, 23)):
        begun = []

        def evaluate(*args, begun=begun, number=number):
            begun.append(args)
            if len(begun) == number:
                signal.raise_signal(signal.SIGTERM)
            return original(*args)

        monkeypatch.setattr(loop, "evaluate", evaluate)
        with pytest.raises(Interrupted, match=f"stopped at step {step}"):
            run(config, tmp_path)
        assert lines(tmp_path)[-1].keys() == {"step", "wall_seconds"}
    monkeypatch.undo()
    again = run(config, tmp_path).result
    folder, expected = complete()
    assert again["resumed_from"] == [8, 16, 23]
    assert all(again[key] == expected[key] for key in ("metrics", "best_step"))
    assert numbers(tmp_path) == numbers(folder)


def test_repeated_requests_of_a_scheduler_are_one_and_answered_between_steps():
    with PreemptionHandler() as requests:
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        assert requests.received == signal.SIGTERM
        with pytest.raises(Interrupted), requests.interruptible():
            pass


@pytest.mark.parametrize("number,seconds", [(signal.SIGINT, 60.0), (signal.SIGTERM, 0.0)])
def test_a_second_request_is_not_waited_for(number, seconds, monkeypatch):
    """Ctrl-C at once, SIGTERM after a while."""
    with PreemptionHandler():
        signal.raise_signal(number)
        monkeypatch.setattr(preemption, "ECHO_SECONDS", seconds)
        with pytest.raises(Interrupted):
            signal.raise_signal(number)


def test_a_request_ends_waiting_for_a_silent_bucket(monkeypatch):
    class Silent:
        def result(self, timeout):
            time.sleep(timeout)
            raise TimeoutError

    monkeypatch.setattr(bucket_state, "_states", {})
    monkeypatch.setattr(preemption, "BUCKET_SECONDS", 0.2)
    bucket = bucket_state.state_of("b", Counter)
    bucket.state = "answering"
    alarm = signal.getsignal(signal.SIGALRM)
    with PreemptionHandler(), pytest.raises(Interrupted, match=r"gs://b: no answer for"):
        signal.raise_signal(signal.SIGTERM)
        bucket.answer(Silent)
    assert signal.getsignal(signal.SIGALRM) == alarm
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0 and bucket.state == "given up"


def test_too_many_bad_steps_end_the_run_with_the_examples_of_the_batch(config, tmp_path):
    config = changed(config, "train", max_bad_steps=3)
    config = changed(config, "optimizer", learning_rate=1e30)  # only the first step is finite
    with pytest.raises(UserError, match=r"step 4: .* 3 times in a row.*nothing is saved") as caught:
        run(config, tmp_path / "run")
    examples = {int(n) for n in re.findall(r"\d+", str(caught.value).partition("examples")[2])}
    task = Toy(config)
    task.prepare()
    assert examples == set(task.train_batches().epoch(0)[3]["index"].tolist())
    assert lines(tmp_path / "run")[0]["bad_steps"] == 2


def test_steps_that_are_not_applied_are_shown_and_counted_across_a_restart(
    config, tmp_path, capsys
):
    config = changed(config, "train", steps=5, log_every=5, checkpoint_every=5, evaluate_every=5)
    config = changed(config, "optimizer", learning_rate=1e30)  # only the first step is finite
    with stopped_after(2, signal.SIGTERM) as caught:
        run(config, tmp_path)
    assert "stopped at step 3" in str(caught.value)
    assert run(config, tmp_path).result["bad_steps"] == 4
    shown = [line for line in capsys.readouterr().err.splitlines() if "bad_steps" in line]
    assert [line.partition("  ")[0] for line in shown] == ["step 3/5", "step 5/5"]
    assert not_finite(RunWriter(tmp_path).metrics()) == "4 of 5 steps not finite"
    assert not_finite([{"step": 5, "loss": 1.0}]) == ""


@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_the_mean_of_the_newest_checkpoints(config, complete, tmp_path, ema_decay):
    if ema_decay:
        run(changed(config, "train", ema_decay=ema_decay), tmp_path)
    folder = RunWriter(tmp_path if ema_decay else complete()[0])
    task, mesh = read_task(folder), make_mesh(MeshConfig(1))
    checkpoints = Checkpoints(folder, "loss")
    steps = checkpoints.steps[-3:]
    assert steps == [16, 20, 23]
    states = [checkpoints.restore(step, abstract_state(task, mesh)).state for step in steps]
    expected = np.mean([state.inference_params["out"] for state in states], axis=0)
    averaged = read_parameters(folder, task, mesh, average=3).values
    np.testing.assert_allclose(averaged["out"], expected, rtol=1e-6)
    assert abs(expected - np.asarray(states[-1].inference_params["out"])).max() > 1e-4
    with pytest.raises(UserError, match=r"too few to average 9; see train\.keep_checkpoints"):
        read_parameters(folder, task, mesh, average=9)
    task.config = changed(task.config, "train", keep_checkpoints=2)  # others: only of the best
    with pytest.raises(UserError, match="has 2 checkpoints, too few to average 3"):
        read_parameters(folder, task, mesh, average=3)


@pytest.mark.parametrize(
    "start,widths,groups",
    [
        (0, [5] * 12, [4, 1, 1, 1, 1, 4]),  # a log line is due after step 6
        (0, [5, 5, 5, 7, 5, 5, 5, 5, 7, 7, 7, 7], [1, 1, 1, 1, 1, 1, 1, 1, 4]),
        (2, [5] * 10, [1, 1, 1, 1, 1, 1, 4]),
    ],
)
def test_groups_of_steps(start, widths, groups):
    rhythm = {"evaluate_every": 12, "checkpoint_every": 12, "log_every": 6}
    config = TrainConfig(steps=12, steps_per_call=4, **rhythm)
    batches = [((0, i + 1), {"x": np.zeros((2, width))}) for i, width in enumerate(widths)]
    calls = list(group_steps(batches, start, config))
    assert [len(batches) for _, batches in calls] == groups
    assert [following for following, _ in calls] == [(0, i) for i in np.cumsum(groups)]
