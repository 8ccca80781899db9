"""Checkpoints that are damaged, unreadable, of another model, or cannot be written."""

import copy
import dataclasses
import itertools
import json
import math
import os
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from common_jax.errors import UserError
from common_jax.io import checksums
from common_jax.training.best import comparable_score
from common_jax.training.checkpoint import Checkpoints
from common_jax.training.run_folder import RunFolder
from common_jax.training.state import TrainState


def state_of(**values):
    rest = {"bad_steps": jnp.int32(0), **values}
    return TrainState(**{f.name: rest.get(f.name) for f in dataclasses.fields(TrainState)})


def make_state(step):
    """A state with several shapes and types, including a scalar and an empty optimizer state."""
    random = np.random.default_rng(step)
    params = {
        "embed": {"table": jnp.asarray(random.normal(size=(40, 6)), jnp.float32)},
        "layers": {
            "kernel": jnp.asarray(random.normal(size=(2, 6, 6)), jnp.float32),
            "bias": jnp.zeros((2, 6), jnp.bfloat16),
        },
        "scale": jnp.float32(0.5),
    }
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
    return state_of(step=jnp.int32(step), params=params, opt_state=optimizer.init(params))


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes()


def reopen(run):
    return Checkpoints(RunFolder(run), "loss")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run with steps 5 and 8; 8 is the better one."""
    run = tmp_path_factory.mktemp("saved")
    checkpoints = reopen(run)
    checkpoints.save(make_state(5), 5, (0, 5), {"loss": 2.0})
    checkpoints.save(make_state(8), 8, (1, 2), {"loss": 1.0})
    checkpoints.close()
    return run


@pytest.fixture
def run(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "run")


def shapes_of(state):
    shape_of = lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding)
    return jax.tree.map(shape_of, state)


@pytest.fixture(scope="module")
def abstract():
    return shapes_of(make_state(0))


def messages(caplog):
    return [r.getMessage() for r in caplog.records if r.name.startswith("common_jax")]


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_intact_steps_are_restored_without_a_message(saved, abstract, caplog):
    restored = reopen(saved).restore_newest(abstract)
    assert (restored.step, restored.position) == (8, (1, 2)) and not messages(caplog)
    same(restored.state, make_state(8))
    assert reopen(saved).steps == [5, 8] and reopen(saved).best == 8
    same(reopen(saved).restore_part(5, "params", abstract.params), make_state(5).params)


def test_what_a_kill_leaves_is_removed_and_other_files_stay(run, abstract, caplog):
    folder = run / "checkpoints"
    (folder / "8" / "notes.txt").write_text("the good one")
    others = {"notes.txt", "8.bak", ".nfs0001"}
    for name in others:
        (folder / name).write_text("")
    for name in ("007", "old", "+11"):
        (folder / name).mkdir()
    shutil.copytree(folder / "8", folder / "9.orbax-checkpoint-tmp")  # of a killed save
    (folder / "9.orbax-checkpoint-tmp" / checksums.NAME).unlink()
    shutil.copytree(folder / "5" / "state", folder / ".deleted" / "2" / "state")
    checkpoints = reopen(run)
    assert checkpoints.restore_newest(abstract).step == 8
    checkpoints.save(make_state(9), 9, (1, 3), None)
    checkpoints.close()
    assert checkpoints.steps == [8, 9] and not messages(caplog)
    names = {path.name for path in folder.iterdir()}
    assert names == others | {"8", "9", "007", "old", "+11"}


def test_a_damaged_step_is_reported_and_moved_aside_and_saving_goes_on(run, abstract, caplog):
    for name in ("8", "8-2"):
        flip(run / "checkpoints" / "8" / "state" / "_METADATA")
        checkpoints = reopen(run)
        caplog.clear()
        require_set_aside(checkpoints, run, abstract, "state/_METADATA", name, caplog)
        checkpoints.save(make_state(8), 8, (1, 2), {"loss": 1.0})
        checkpoints.close()
        same(reopen(run).restore_newest(abstract).state, make_state(8))


def require_set_aside(checkpoints, run, abstract, message, name, caplog):
    """Step 5 is restored in the place of the damaged step 8."""
    restored = checkpoints.restore_newest(abstract)
    assert restored is not None and (restored.step, restored.position) == (5, (0, 5))
    same(restored.state, make_state(5))
    (line,) = messages(caplog)
    assert line.startswith(f"{run}/checkpoints/8: {message}")
    assert line.endswith(f"; set aside in {run}/damaged/{name}") and "\n" not in line
    assert (run / "damaged" / name).exists() and not (run / "checkpoints" / "8").exists()


def test_a_folder_without_steps_is_not_reported_as_damaged(run, abstract, tmp_path):
    assert reopen(tmp_path / "empty").restore_newest(abstract) is None
    for step in ("5", "8"):
        flip(run / "checkpoints" / step / "state" / "manifest.ocdbt")
    with pytest.raises(UserError, match=r"every checkpoint was damaged; they are in .*/damaged"):
        reopen(run).restore_newest(abstract)
    assert reopen(run).restore_newest(abstract) is None
    assert len(list((run / "damaged").iterdir())) == 2


@pytest.mark.parametrize("name", ["state/manifest.ocdbt", "state/_METADATA", "position/metadata"])
def test_files_that_orbax_cannot_read_with_right_checksums(run, abstract, name):
    (run / "checkpoints" / "8" / name).write_text("nonsense")
    (run / "checkpoints" / "8" / checksums.NAME).unlink()
    checksums.seal(run / "checkpoints" / "8")
    with pytest.raises(UserError, match=f"checkpoints/8: {name.split('/')[0]}: cannot be read"):
        reopen(run).restore(8, abstract)
    assert reopen(run).restore_newest(abstract).step == 5
    assert (run / "damaged" / "8").is_dir()


def test_a_reader_refuses_damaged_steps_and_moves_nothing(run, abstract):
    flip(run / "checkpoints" / "8" / "state" / "_METADATA")
    reader = reopen(run)
    assert reader.best == 8
    for read in (
        lambda: reader.restore(8, abstract),
        lambda: reader.restore_part(8, "params", abstract.params),
    ):
        with pytest.raises(UserError, match="checkpoints/8: state/_METADATA: not the bytes"):
            read()
    (run / "checkpoints" / "8" / "metrics" / "metrics").unlink()
    with pytest.raises(UserError, match="checkpoints/8: metrics/metrics: missing"):
        reader.best  # noqa: B018
    assert reader.steps == [5, 8] and not (run / "damaged").exists()


def test_the_best_of_the_intact_steps(run, abstract, caplog):
    (run / "checkpoints" / "8" / "metrics" / "metrics").write_text("{}")
    restored = reopen(run).restore_best(abstract)
    assert restored.step == 5 and "checkpoints/8: metrics/metrics: 2 bytes" in caplog.text
    same(restored.state, make_state(5))


def test_another_model_is_refused_by_the_parameters_name(saved, abstract):
    def model(**changes):
        node = copy.copy(abstract)  # not made anew: its leaves are shapes, and no arrays
        object.__setattr__(node, "params", {**abstract.params, **changes})
        return node

    leaf = jax.ShapeDtypeStruct
    table = "params/embed/table: float32 [40, 6], the model expects"
    layers = {"kernel": abstract.params["layers"]["kernel"]}
    wrong = {
        f"{table} float32 [41, 6]": model(embed={"table": leaf((41, 6), jnp.float32)}),
        f"{table} bfloat16 [40, 6]": model(embed={"table": leaf((40, 6), jnp.bfloat16)}),
        "params/extra: missing, the model expects int32 []": model(extra=leaf((), jnp.int32)),
        "params/layers/bias: bfloat16 [2, 6], the model expects none": model(layers=layers),
    }
    for words, other in wrong.items():
        for read in (
            lambda other=other: reopen(saved).restore(8, other),
            lambda other=other: reopen(saved).restore_newest(other),
            lambda other=other: reopen(saved).restore_part(8, "params", other.params),
        ):
            with pytest.raises(UserError, match=f"checkpoints/8: {re.escape(words)}$"):
                read()
    assert reopen(saved).steps == [5, 8]  # of another model is not damaged


@pytest.mark.parametrize(
    "metric,values,steps,best",
    [
        ("loss", [3.0, 1.0, 2.0, 2.5, None], [1, 3, 4], 1),
        ("bleu", [9.0, 1.0, 2.0, 2.5, None], [0, 3, 4], 0),
        ("loss", [3.0, float("nan"), None, 4.0, 5.0], [0, 3, 4], 0),
        ("loss", [None, None, None, None, None], [3, 4], 4),
        ("accuracy", [50.0, 100.0, 100.0, 100.0, 100.0], [1, 3, 4], 1),  # of equals the earliest
    ],
)
def test_the_newest_two_and_the_best_are_preserved(tmp_path, metric, values, steps, best):
    checkpoints = Checkpoints(RunFolder(tmp_path), metric)
    for step, value in enumerate(values):
        metrics = None if value is None else {metric: value}
        state = state_of(step=jnp.int32(step), params={}, opt_state=())
        checkpoints.save(state, step, (0, step), metrics)
    checkpoints.wait()
    assert (checkpoints.steps, checkpoints.best, checkpoints.latest) == (steps, best, 4)
    checkpoints.close()
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == set(map(str, steps))


def test_a_finished_run_keeps_the_step_that_it_scored(tmp_path):
    """Older code scored the newest of equal steps; a run that trains on has the earliest."""
    run = RunFolder(tmp_path)
    checkpoints = Checkpoints(run, "accuracy")
    for step in (1, 2):
        state = state_of(step=jnp.int32(step), params={}, opt_state=())
        checkpoints.save(state, step, (0, step), {"accuracy": 100.0})
    checkpoints.close()
    result = {"steps": 2, "best_step": 2, "metrics": {}, "versions": {}, "wall_seconds": 1.0}
    result |= {"parameters": 1, "devices": ["cpu"]}
    for changes, best in (({}, 2), ({"steps": 1}, 1), ({"best_step": 7}, 1)):
        run.result_file.write_text(json.dumps({**result, **changes}))
        assert checkpoints.best == best


def test_metrics_may_come_later(abstract, tmp_path):
    """A step that was saved without metrics gets them after a later validation."""
    for metrics in (None, {"loss": 1.0}):
        checkpoints = reopen(tmp_path)
        assert checkpoints.steps == ([] if metrics is None else [5])
        for _ in range(2):
            checkpoints.save(make_state(5), 5, (0, 5), metrics)
        checkpoints.wait()
        same(checkpoints.restore_newest(abstract).state, make_state(5))
    for step in (6, 7, 8):
        checkpoints.save(make_state(step), step, (0, step), {"loss": float(step)})
    checkpoints.close()
    assert checkpoints.steps == [5, 7, 8] and checkpoints.best == 5
    same(reopen(tmp_path).restore_best(abstract).state, make_state(5))
    (tmp_path / "checkpoints" / "5" / "metrics" / "metrics").write_text('{"loss": 2.0}')
    assert reopen(tmp_path).restore_best(abstract).step == 7


def test_any_number_is_better_than_none():
    for name, worse, better in (("loss", 2.0, 1.0), ("f1", 1.0, 2.0)):
        assert comparable_score({name: math.nan}, name) == comparable_score({}, name) == -math.inf
        scores = [comparable_score({name: value}, name) for value in (worse, better)]
        assert -math.inf < scores[0] < scores[1]


def replaced(path, make):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    make(path)


def damages(step):
    """Ways to damage a step's folder: (function, text in the error message)."""
    halve = lambda path: os.truncate(path, path.stat().st_size // 2)
    empty = lambda path: os.truncate(path, 0)
    kinds = itertools.cycle((halve, empty, os.unlink, lambda path: replaced(path, os.mkdir)))
    for path, kind in zip(sorted(checksums.files_in(step)), kinds, strict=False):
        name = path.relative_to(step).as_posix()
        for damage in (flip, kind):
            yield lambda s, n=name, damage=damage: damage(s / n), name
    fewer = json.loads((step / checksums.NAME).read_text())
    fewer["files"].popitem()
    for text in ("{x", "{}", json.dumps(fewer)):
        yield lambda s, text=text: (s / checksums.NAME).write_text(text), checksums.NAME
    array = str(min(checksums.files_in(step / "state" / "d")).relative_to(step))
    yield lambda s: (s / array).write_bytes(b"x" * 10_000), array
    yield lambda s: replaced(s, os.mkdir), "an empty folder"
    yield lambda s: replaced(s, lambda path: path.write_text("50")), "a file, not a folder"
    for item in ("state", "position", "metrics"):
        yield lambda s, item=item: shutil.rmtree(s / item), item


@pytest.mark.slow
def test_every_damage_is_reported_and_the_step_before_restored(saved, abstract, tmp_path, caplog):
    cases = [*damages(saved / "checkpoints" / "8")]
    assert len(cases) >= 30
    for number, (do, message) in enumerate(cases):
        run = shutil.copytree(saved, tmp_path / f"{number}")
        do(run / "checkpoints" / "8")
        caplog.clear()
        require_set_aside(reopen(run), run, abstract, message, "8", caplog)
        shutil.rmtree(run)


def test_a_folder_that_goes_away(tmp_path):
    checkpoints = reopen(tmp_path / "run")
    checkpoints.save(make_state(1), 1, (0, 1), None)
    checkpoints.wait()
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").write_text("")
    with pytest.raises(UserError, match="cannot be written: Not a directory; nothing is saved yet"):
        checkpoints.save(make_state(2), 2, (0, 2), None)
    checkpoints.close()
