"""Other meshes than by day, each system on a mesh, and checkpoints that change their mesh."""

import dataclasses

import jax
import numpy as np
import pytest

from common_jax.config import MeshConfig, to_config_dict
from common_jax.training.checkpoint import Checkpoints
from common_jax.training.mesh import make_mesh
from common_jax.training.run_folder import RunFolder
from common_jax.training.state import abstract_state, init_state
from common_jax.training.step import make_train_step
from configs.csan.systems import SYSTEMS
from tests.families import tasks
from tests.families.test_mesh import (
    on_one_device,
    require_equal,
)
from tests.sharded_batch import placed


@pytest.fixture(scope="module", params=tasks.TASKS)
def alone(request, tmp_path_factory):
    """A family, its folder, and its results on one device."""
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, folder, on_one_device(request.param, folder)


@pytest.fixture(scope="module")
def translation():
    return on_one_device("csan", None)


def test_an_axis_of_data_equals_one_device(alone):
    require_equal(*alone, (8, 1, 1))


def test_parts_remat_and_unrolling_equal_the_plain_step(translation):
    model = {"remat": True, "unroll": True}
    require_equal("csan", None, translation, (1, 1, 1), accumulate=4, model=model)


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
