"""Training on three axes of a mesh, of a batch in parts, gives the numbers of one device.

With a constant learning rate large enough to change the parameters, no dropout, and a loss that
decreases; `tests/nightly/families/test_mesh.py` has other meshes.
"""

import jax
import numpy as np
import pytest

from common_jax.training.mesh import make_mesh
from common_jax.training.state import abstract_state
from common_jax.training.step import make_predict_step
from tests.families import tasks
from tests.sharded_batch import placed

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
    """2D-CSAN, whose heads attend across the tensor axis, with rematerialisation."""
    changes = {"accumulate": 2, "model": {"remat": True}}
    require_sharded(require_equal("csan", folder, translation, MESH, **changes), 1 / 4)


def require_sharded(state, share):
    """Each device has this share of a kernel, of its moment and of its moving average."""
    for tree in (state.params, state.opt_state[1].mu, state.ema):
        array = tree["encoder"]["layers"]["feed_forward"]["in"]["kernel"]
        assert array.addressable_shards[0].data.size / array.size == share


@pytest.mark.parametrize(
    ("family", "changes"),
    [("qanet", {"accumulate": 2}), ("attconv", {"accumulate": 3, "per_call": 4})],
)
def test_reading_and_labels_on_a_mesh_equal_one_device(folder, family, changes):
    require_equal(family, folder, on_one_device(family, folder), MESH, **changes)


def require_equal_translations(alone, *others):
    """Translates a batch on one device and on other meshes, of a batch in parts."""
    batch = next(tasks.pieces())
    params = jax.device_get(alone[1].params)
    got = []
    for shape, parts in (((1, 1, 1), 1), *others):
        task = tasks.translation(None, shape, accumulate=parts)
        mesh = make_mesh(task.config.mesh)
        where = jax.tree.map(lambda a: a.sharding, abstract_state(task, mesh).params)
        step = make_predict_step(task, mesh, final=True)
        got.append(jax.device_get(step(jax.device_put(params, where), placed(batch, mesh))))
    rows = len(batch["index"])
    for other in got[1:]:
        np.testing.assert_array_equal(other["index"][:rows], batch["index"])
        np.testing.assert_array_equal(other["pieces"][:rows], got[0]["pieces"][:rows])
        np.testing.assert_allclose(other["score"][:rows], got[0]["score"][:rows], rtol=1e-5)


def test_a_mesh_and_parts_of_a_batch_translate_as_one_device_does(translation):
    require_equal_translations(translation, (MESH, 3))
