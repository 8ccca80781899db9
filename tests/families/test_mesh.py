"""Training on three axes of a mesh, of a batch in parts, gives the numbers of one device.

With a constant learning rate large enough to change the parameters, no dropout, and a loss that
decreases.
"""

import dataclasses

import jax
import numpy as np
import pytest

from common_jax.config import MeshConfig, to_config_dict
from common_jax.training.checkpoint import Checkpoints
from common_jax.training.mesh import make_mesh
from common_jax.training.run_folder import RunFolder
from common_jax.training.state import abstract_state, init_state
from common_jax.training.step import make_predict_step, make_train_step
from configs.csan.systems import SYSTEMS
from tests.families import tasks
from tests.toy import placed

MESH = (2, 2, 2)
STEPS = {"csan": 12, "qanet": 4, "attconv": 12}
TOLERANCE = {"csan": 2e-5, "qanet": 5e-5, "attconv": 2e-5}
DECREASE = {"csan": 0.9, "qanet": 1, "attconv": 0.9}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def on_one_device(family, folder):
    """The initial and the final state, and the numbers of each step."""
    task = tasks.TASKS[family](folder)
    initial = tasks.begun(task)
    state, numbers = tasks.trained(task, initial, STEPS[family])
    assert numbers[-1, 0] < DECREASE[family] * numbers[0, 0]  # it learns
    return initial, state, numbers


@pytest.fixture(scope="module")
def translation(folder):
    return on_one_device("csan", folder)


def require_equal(family, folder, alone, mesh, per_call=1, **changes):
    """Trains on a mesh; returns the final state."""
    initial, _, expected = alone
    task = tasks.TASKS[family](folder, mesh, **changes)
    state, numbers = tasks.trained(task, initial, STEPS[family], per_call)
    np.testing.assert_allclose(numbers, expected, rtol=TOLERANCE[family])
    return state


def test_translation_on_a_mesh_equals_one_device(folder, translation):
    """2D-CSAN, whose heads attend across the tensor axis, with rematerialisation; each device has a
    quarter of a kernel, of its moment and of its moving average."""
    changes = {"accumulate": 2, "model": {"remat": True}}
    state = require_equal("csan", folder, translation, MESH, **changes)
    for tree in (state.params, state.opt_state[1].mu, state.ema):
        array = tree["encoder"]["layers"]["feed_forward"]["in"]["kernel"]
        assert array.addressable_shards[0].data.size == array.size / 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "changes"),
    [("qanet", {"accumulate": 2}), ("attconv", {"accumulate": 3, "per_call": 4})],
)
def test_reading_and_labels_on_a_mesh_equal_one_device(folder, family, changes):
    require_equal(family, folder, on_one_device(family, folder), MESH, **changes)


def test_a_mesh_and_parts_of_a_batch_translate_as_one_device_does(translation):
    batch = next(tasks.pieces())
    params = jax.device_get(translation[1].params)
    got = []
    for shape, parts in (((1, 1, 1), 1), (MESH, 3)):
        task = tasks.translation(None, shape, accumulate=parts)
        mesh = make_mesh(task.config.mesh)
        where = jax.tree.map(lambda a: a.sharding, abstract_state(task, mesh).params)
        step = make_predict_step(task, mesh, final=True)
        got.append(jax.device_get(step(jax.device_put(params, where), placed(batch, mesh))))
    rows = len(batch["index"])
    one, other = ({name: each[name][:rows] for name in ("pieces", "score")} for each in got)
    np.testing.assert_array_equal(got[1]["index"][:rows], batch["index"])
    np.testing.assert_array_equal(other["pieces"], one["pieces"])
    np.testing.assert_allclose(other["score"], one["score"], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", tasks.TASKS)
def test_an_axis_of_data_equals_one_device(folder, family):
    require_equal(family, folder, on_one_device(family, folder), (8, 1, 1))


@pytest.mark.slow
def test_parts_remat_and_unrolling_equal_the_plain_step(translation):
    model = {"remat": True, "unroll": True}
    require_equal("csan", None, translation, (1, 1, 1), accumulate=4, model=model)


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_any_system_on_a_mesh_equals_one_device(system):
    """Two steps on three axes, in packed rows."""
    model = dataclasses.replace(tasks.TRANSFORMER, num_heads=8)
    fields = SYSTEMS[system](to_config_dict(model))
    batch = next(tasks.pieces())
    ids = np.where(batch["source"] != 0, 1 + (np.arange(9) > 4), 0).astype(np.int32)
    batch |= {"source_segments": ids, "target_segments": ids}
    got = []
    for shape in ((1, 1, 1), (2, 2, 2)):
        task = tasks.translation(None, shape, model={"num_heads": 8, **fields})
        mesh = make_mesh(task.config.mesh)
        state = init_state(task, mesh)
        step = make_train_step(task, mesh)
        numbers = []
        for _ in range(2):
            state, metrics = step(state, (placed(batch, mesh),), jax.random.key(0))
            numbers.append([metrics["loss"][0], metrics["grad_norm"][0]])
        got.append(jax.device_get(numbers))
    np.testing.assert_allclose(got[1], got[0], rtol=2e-5)


@pytest.mark.slow
def test_a_checkpoint_is_restored_onto_any_mesh(translation, tmp_path):
    meshes = [make_mesh(MeshConfig(*shape)) for shape in ((2, 2, 2), (1, 8, 1))]
    checkpoints = Checkpoints(RunFolder(tmp_path), "nll")
    task = tasks.translation()
    state = translation[1]
    for step, (position, mesh) in enumerate(zip(((0, 3), (2, 7)), meshes, strict=True)):
        checkpoints.save(state, step, position, None)
        checkpoints.wait()
        restored = checkpoints.restore_newest(abstract_state(task, mesh))
        assert (restored.step, restored.position) == (step, position)
        kernel = restored.state.params["decoder"]["layers"]["feed_forward"]["in"]["kernel"]
        assert kernel.sharding.mesh == mesh
        state = restored.state
    checkpoints.close()
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(translation[1]), strict=True):
        np.testing.assert_array_equal(a, b)
