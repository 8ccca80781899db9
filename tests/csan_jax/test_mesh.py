"""CSAN on meshes of data, fsdp and tensor axes gives the numbers of one device.

With a constant learning rate large enough to change the parameters, no dropout, and a loss that
decreases.
"""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from common_jax.config import MeshConfig, OptimizerConfig, TrainConfig, to_config_dict
from common_jax.training.checkpoint import Checkpoints
from common_jax.training.mesh import make_mesh
from common_jax.training.run_folder import RunFolder
from common_jax.training.state import abstract_state, init_state
from common_jax.training.step import make_predict_step, make_train_step
from configs.csan.systems import SYSTEMS
from csan_jax.attention.area import Area
from csan_jax.config import Config, DataConfig, DecodeConfig, ModelConfig
from csan_jax.task import Translation
from tests.sharded_batch import placed

STEPS = 12
MODEL = ModelConfig(
    dim=32,
    mlp_dim=64,
    num_heads=4,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention=Area(local_layers=1, token_window=3, head_window=3),
    tie="all",
    source_vocab_size=40,
    target_vocab_size=40,
    dropout=0.0,
)


def translation(mesh=(1, 1, 1), accumulate=1, **model):
    config = Config(
        model=dataclasses.replace(MODEL, **model),
        data=DataConfig(source="generated", examples=10, vocab_size=40),
        optimizer=OptimizerConfig(learning_rate=1e-3, schedule="constant", warmup_steps=1),
        train=TrainConfig(accumulate=accumulate, ema_decay=0.9),
        decode=DecodeConfig(extra_length=4, beam_size=2),
        mesh=MeshConfig(*mesh),
    )
    return Translation(config)


def batches():
    random = np.random.default_rng(0)
    for _ in range(STEPS):
        lengths = random.integers(2, 9, 12)
        pieces = random.integers(3, 40, (12, 9)) * (np.arange(9) < lengths[:, None])
        pieces[np.arange(12), lengths] = 1
        pieces = pieces.astype(np.int32)
        yield {"index": np.arange(12, dtype=np.int32), "source": pieces, "target": pieces}


@functools.cache
def initial():
    """The state before the first step, on the host: the same on any mesh."""
    task = translation()
    return jax.device_get(init_state(task, make_mesh(task.config.mesh)))


def trained(task):
    """The final state, and the loss and the gradient's norm of each step, [steps, 2]."""
    mesh = make_mesh(task.config.mesh)
    state = jax.device_put(
        initial(), jax.tree.map(lambda a: a.sharding, abstract_state(task, mesh))
    )
    step, numbers = make_train_step(task, mesh), []
    for batch in batches():
        state, metrics = step(
            state,
            (placed(batch, mesh, task.config.train.accumulate),),
            jax.random.key(task.config.train.seed),
        )
        numbers.append([metrics["loss"][0], metrics["grad_norm"][0]])
    return state, np.array(jax.device_get(numbers))


@pytest.fixture(scope="module")
def alone():
    return trained(translation())


@pytest.mark.parametrize(
    "mesh,changes",
    [
        pytest.param((8, 1, 1), {}, marks=pytest.mark.slow),
        pytest.param((2, 2, 2), {}, marks=pytest.mark.slow),
        ((2, 2, 2), {"accumulate": 2, "remat": True}),
    ],
)
def test_any_mesh_equals_one_device(alone, mesh, changes):
    """2D-CSAN, whose heads attend across the tensor axis; also with accumulation and
    rematerialisation."""
    state, numbers = trained(translation(mesh, **changes))
    expected = alone[1]
    assert expected[-1, 0] < 0.9 * expected[0, 0]  # it learns
    np.testing.assert_allclose(numbers, expected, rtol=2e-5)
    kernel = state.params["encoder"]["layers"]["feed_forward"]["in"]["kernel"]
    moment = state.opt_state[1].mu["encoder"]["layers"]["feed_forward"]["in"]["kernel"]
    average = state.ema["encoder"]["layers"]["feed_forward"]["in"]["kernel"]
    for array in (kernel, moment, average):
        share = array.addressable_shards[0].data.size / array.size
        assert share == 1 / (mesh[1] * mesh[2])


@pytest.mark.slow
@pytest.mark.parametrize("system", SYSTEMS)
def test_any_system_on_a_mesh_equals_one_device(system):
    """Two steps on three axes, in packed rows."""
    fields = SYSTEMS[system](to_config_dict(dataclasses.replace(MODEL, num_heads=8)))
    batch = next(batches())
    ids = np.where(batch["source"] != 0, 1 + (np.arange(9) > 4), 0).astype(np.int32)
    batch |= {"source_segments": ids, "target_segments": ids}
    got = []
    for shape in ((1, 1, 1), (2, 2, 2)):
        task = translation(shape, num_heads=8, **fields)
        mesh, numbers = make_mesh(task.config.mesh), []
        state, step = init_state(task, mesh), make_train_step(task, mesh)
        for _ in range(2):
            state, metrics = step(state, (placed(batch, mesh),), jax.random.key(0))
            numbers.append([metrics["loss"][0], metrics["grad_norm"][0]])
        got.append(jax.device_get(numbers))
    np.testing.assert_allclose(got[1], got[0], rtol=2e-5)


def test_a_checkpoint_is_restored_onto_any_mesh(alone, tmp_path):
    meshes = [make_mesh(MeshConfig(*shape)) for shape in ((2, 2, 2), (1, 8, 1))]
    checkpoints = Checkpoints(RunFolder(tmp_path), "nll")
    task, state = translation(), alone[0]
    for step, (position, mesh) in enumerate(zip(((0, 3), (2, 7)), meshes, strict=True)):
        checkpoints.save(state, step, position, None)
        checkpoints.wait()
        restored = checkpoints.restore_newest(abstract_state(task, mesh))
        assert (restored.step, restored.position) == (step, position)
        kernel = restored.state.params["decoder"]["layers"]["feed_forward"]["in"]["kernel"]
        assert kernel.sharding.mesh == mesh
        state = restored.state
    checkpoints.close()
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(alone[0]), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_parts_remat_and_unrolling_equal_the_plain_step(alone):
    numbers = trained(translation(accumulate=4, remat=True, unroll=True))[1]
    np.testing.assert_allclose(numbers, alone[1], rtol=2e-5)


def test_a_mesh_and_parts_of_a_batch_translate_as_one_device_does(alone):
    batch = next(batches())
    params = jax.device_get(alone[0].params)
    got = []
    for shape, parts in (((1, 1, 1), 1), ((2, 2, 2), 3), ((1, 1, 1), 8)):
        task = translation(shape, accumulate=parts)
        mesh = make_mesh(task.config.mesh)
        where = jax.tree.map(lambda a: a.sharding, abstract_state(task, mesh).params)
        step = make_predict_step(task, mesh, final=True)
        got.append(jax.device_get(step(jax.device_put(params, where), placed(batch, mesh))))
    rows = len(batch["index"])
    for other in got[1:]:
        np.testing.assert_array_equal(other["index"][:rows], batch["index"])
        np.testing.assert_array_equal(other["pieces"][:rows], got[0]["pieces"][:rows])
        np.testing.assert_allclose(other["score"][:rows], got[0]["score"][:rows], rtol=1e-5)
