"""A training step on the toy task against plain NumPy, with its optimizers and meshes."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from common_jax.config import MeshConfig, OptimizerConfig, TrainConfig
from common_jax.errors import UserError
from common_jax.training.mesh import make_mesh, mesh_shape, shardings
from common_jax.training.optimizer import limit_output_norm, make_optimizer, make_schedule
from common_jax.training.state import init_state
from common_jax.training.step import make_train_step
from tests.toy import Toy, ToyConfig, placed

ADAM = OptimizerConfig(learning_rate=0.01, schedule="constant", warmup_steps=1, clip_norm=0.0)


def make(mesh=(1, 1, 1), task=Toy, optimizer=ADAM, **train):
    config = ToyConfig(rate=0.0, optimizer=optimizer, train=TrainConfig(**train))
    return task(config), make_mesh(MeshConfig(*mesh))


def batches(count, rows=12):
    numbers = np.random.default_rng(1).integers(0, 10, (count, rows, 3)).astype(np.int32)
    return [{"index": np.arange(rows, dtype=np.int32), "numbers": n} for n in numbers]


def take(task, mesh, groups):
    """The state and the metrics of each step, after calls with the given groups of batches."""
    step = make_train_step(task, mesh)
    state = init_state(task, mesh)
    parts = []
    key = jax.random.key(task.config.train.seed)
    for group in groups:
        rows = tuple(placed(batch, mesh, task.config.train.accumulate) for batch in group)
        state, metrics = step(state, rows, key)
        metrics = jax.device_get(metrics)
        parts += [{k: v[i] for k, v in metrics.items()} for i in range(len(group))]
    return jax.device_get(state), parts


def steps_by_hand(task, groups):
    """The same by hand: mean squared error of the sum, gradient by hand, Adam by its equations."""
    params = jax.device_get(init_state(task, make_mesh(MeshConfig(1))).params)
    table, out = (np.asarray(a, np.float64) for a in (params["table"]["row"], params["out"]))
    moments = [[np.zeros_like(a), np.zeros_like(a)] for a in (table, out)]
    losses = []
    for count, batch in enumerate(groups, start=1):
        rows = table[batch["numbers"]].sum(1)
        error = rows @ out - batch["numbers"].sum(1)
        losses.append((error**2).mean())
        slope = 2 * error / len(error)
        gradient = [np.zeros_like(table), slope @ rows]
        np.add.at(gradient[0], batch["numbers"], np.outer(slope, out)[:, None])
        for array, g, m in zip((table, out), gradient, moments, strict=True):
            m[0] = ADAM.b1 * m[0] + (1 - ADAM.b1) * g
            m[1] = ADAM.b2 * m[1] + (1 - ADAM.b2) * g**2
            corrected = m[0] / (1 - ADAM.b1**count), m[1] / (1 - ADAM.b2**count)
            array -= ADAM.learning_rate * corrected[0] / (np.sqrt(corrected[1]) + ADAM.eps)
    return table, out, losses


def test_three_steps_by_hand():
    task, mesh = make()
    data = batches(3)
    state, metrics = take(task, mesh, [[b] for b in data])
    table, out, losses = steps_by_hand(task, data)
    np.testing.assert_allclose([m["loss"] for m in metrics], losses, rtol=1e-5)
    np.testing.assert_allclose(state.params["table"]["row"], table, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(state.params["out"], out, rtol=1e-5)


class Penalised(Toy):
    """Adds to the loss the term that `optimizer.l2` adds."""

    L2 = 5.0

    def loss(self, params, batch, key):
        sums = super().loss(params, batch, key)
        squares = sum(jnp.sum(p**2) for p in jax.tree.leaves(params))
        return sums | {"loss": sums["loss"] + sums["weight"] * self.L2 / 2 * squares}


def test_l2_is_half_the_sum_of_all_squares_in_the_loss_before_clipping():
    data = [[b] for b in batches(3)]
    clipped = dataclasses.replace(ADAM, clip_norm=20.0)
    decay = dataclasses.replace(clipped, l2=Penalised.L2)
    expected, penalised = take(*make(task=Penalised, optimizer=clipped), data)
    got, reported = take(*make(optimizer=decay), data)
    without, unpenalised = take(*make(optimizer=clipped), data)
    assert penalised[0]["grad_norm"] > clipped.clip_norm
    np.testing.assert_allclose(got.params["out"], expected.params["out"], rtol=1e-5)
    rows = [state.params["table"]["row"] for state in (got, expected, without)]
    np.testing.assert_allclose(rows[0], rows[1], rtol=1e-4, atol=1e-6)
    assert abs(rows[0] - rows[2]).max() > 1e-3
    assert reported[0]["loss"] == pytest.approx(unpenalised[0]["loss"], rel=1e-6)


def test_the_exponential_warm_up():
    """Geometric growth from a hundredth of the peak, then the schedule."""
    config = OptimizerConfig(
        learning_rate=1e-3, schedule="constant", warmup="exponential", warmup_steps=1000
    )
    rates = np.asarray(jax.vmap(make_schedule(config, 1500))(jnp.arange(1500)), np.float64)
    np.testing.assert_allclose(rates[:1000], np.geomspace(1e-5, 1e-3, 1001)[1:], rtol=1e-5)
    np.testing.assert_array_equal(rates[999:], rates[999])
    np.testing.assert_allclose(rates[999], 1e-3, rtol=1e-7)
    at_once = dataclasses.replace(config, warmup_steps=0)
    np.testing.assert_allclose(make_schedule(at_once, 1500)(jnp.int32(0)), 1e-3, rtol=1e-7)


@pytest.mark.parametrize("mesh,parts", [((1, 1, 1), 4), ((1, 1, 1), 5), ((4, 2, 1), 2)])
def test_a_batch_in_parts_is_the_same_step(mesh, parts):
    data = [[b] for b in batches(4, rows=11)]  # 11 rows: some parts have fewer than others
    one_batch, metrics = take(*make(), data)
    cut, cut_metrics = take(*make(mesh, accumulate=parts), data)
    for name in ("loss", "nll", "grad_norm"):
        values = ([m[name] for m in ms] for ms in (cut_metrics, metrics))
        np.testing.assert_allclose(*values, rtol=1e-5)
    np.testing.assert_allclose(cut.params["out"], one_batch.params["out"], rtol=1e-5)


def test_several_steps_in_a_call_are_the_same_steps():
    data = batches(6)
    single, metrics = take(*make(), [[b] for b in data])
    grouped, grouped_metrics = take(*make(steps_per_call=3), [data[:3], data[3:]])
    assert len(grouped_metrics) == 6 and int(grouped.step) == 6
    for a, b in zip(metrics, grouped_metrics, strict=True):
        np.testing.assert_allclose([*a.values()], [*b.values()], rtol=1e-5)
    np.testing.assert_allclose(grouped.params["out"], single.params["out"], rtol=1e-6)


def test_the_moving_average_by_hand():
    data = batches(5)
    task, mesh = make(ema_decay=0.5)
    step = make_train_step(task, mesh)
    state = init_state(task, mesh)
    expected = np.array(state.ema["out"])
    np.testing.assert_array_equal(expected, state.params["out"])
    for count, batch in enumerate(data):
        state, _ = step(state, (placed(batch, mesh),), jax.random.key(task.config.train.seed))
        decay = min(0.5, (1 + count) / (10 + count))
        expected = decay * expected + (1 - decay) * np.array(state.params["out"])
    np.testing.assert_allclose(state.ema["out"], expected, rtol=1e-6)
    assert abs(expected - np.array(state.params["out"])).max() > 1e-3
    assert state.inference_params is state.ema


class Exploding(Toy):
    """The loss is not finite for batches that begin with nine nines."""

    def loss(self, params, batch, key):
        sums = super().loss(params, batch, key)
        bad = jnp.all(batch["numbers"][0] == 9)
        return sums | {"loss": sums["loss"] * jnp.where(bad, jnp.inf, 1.0)}


@pytest.mark.parametrize("per_call", [1, 5])
def test_a_step_that_is_not_finite_changes_nothing_but_the_count(per_call):
    good, bad = batches(3), batches(1)[0]
    bad["numbers"][0] = 9
    data = [good[0], bad, bad, good[1], good[2]]
    groups = [[b] for b in data] if per_call == 1 else [data]
    task, mesh = make(task=Exploding, ema_decay=0.9)
    state, metrics = take(task, mesh, groups)
    assert [int(m["bad_steps"]) for m in metrics] == [0, 1, 2, 0, 0]
    assert int(state.step) == 5 and int(state.bad_steps) == 0
    alone, _ = take(task, mesh, [[b] for b in good])
    # Adam's moments and count are those of three steps too
    for pair in zip(
        jax.tree.leaves((state.params, state.opt_state)),
        jax.tree.leaves((alone.params, alone.opt_state)),
        strict=True,
    ):
        np.testing.assert_allclose(*pair, rtol=1e-6)


def test_fresh_states_are_the_same_on_every_mesh():
    task, one = make()
    config = dataclasses.replace(task.config, mesh=MeshConfig(2, 2, 2))
    states = [init_state(task, one), init_state(Toy(config), make_mesh(config.mesh))]
    for a, b in zip(*map(jax.tree.leaves, states), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "requested,devices,shape",
    [
        ((-1, 2, 2), 8, (2, 2, 2)),
        ((1, -1, 2), 8, (1, 4, 2)),
        ((2, 2, -1), 4, (2, 2, 1)),
        ((1, 2, 1), 8, (1, 2, 1)),
    ],
)
def test_minus_one_takes_what_remains(requested, devices, shape):
    assert tuple(mesh_shape(MeshConfig(*requested), devices).values()) == shape


@pytest.mark.parametrize(
    "requested,message",
    [
        ((-1, 3, 1), "mesh.fsdp=3: 8 devices are not a multiple of 3"),
        ((4, 4, 1), "mesh.data=4 x mesh.fsdp=4: only 8 devices here"),
        ((-1, -1, 1), "mesh"),
        ((0, 1, 1), "mesh"),
        ((1, -2, 1), "mesh"),
    ],
)
def test_a_mesh_that_does_not_come_out(requested, message):
    with pytest.raises(UserError, match=message):
        make_mesh(MeshConfig(*requested))


def test_names_of_axes_decide_where_a_parameter_lies():
    mesh = make_mesh(MeshConfig(2, 2, 2))
    box = lambda shape, *names: nn.LogicallyPartitioned(jnp.zeros(shape), names)
    tree = {
        "kernel": box((6, 4), "embed", "mlp"),
        "stacked": box((3, 4, 6), "layers", "heads", "embed"),
        "odd": box((7, 4), "vocab", "embed"),
        "plain": jnp.zeros((4, 4)),
    }
    got = {name: sharding.spec for name, sharding in shardings(tree, mesh).items()}
    assert got["kernel"] == P("fsdp", "tensor")
    assert got["stacked"] == P(None, "tensor", "fsdp")
    assert got["odd"] == P(None, "fsdp")  # 7 rows stay whole on 2 devices
    assert got["plain"] == P()


EPS = 1e-6
GRADIENTS = np.random.default_rng(0).normal(size=(5, 3))


def adam(gradients, b1=0.9, b2=0.99):
    mean = square = np.zeros(3)
    for step, g in enumerate(gradients, start=1):
        mean, square = b1 * mean + (1 - b1) * g, b2 * square + (1 - b2) * g * g
        yield mean / (1 - b1**step) / (np.sqrt(square / (1 - b2**step)) + EPS)


def adamax(gradients, b1=0.9, b2=0.99):
    """Kingma & Ba 2015, algorithm 2."""
    mean = largest = np.zeros(3)
    for step, g in enumerate(gradients, start=1):
        mean, largest = b1 * mean + (1 - b1) * g, np.maximum(b2 * largest, np.abs(g) + EPS)
        yield mean / (1 - b1**step) / largest


def adadelta(gradients, b1=0.9, b2=0.99):
    """Zeiler 2012, algorithm 1."""
    square = moved = np.zeros(3)
    for g in gradients:
        square = b2 * square + (1 - b2) * g * g
        update = np.sqrt(moved + EPS) / np.sqrt(square + EPS) * g
        moved = b2 * moved + (1 - b2) * update * update
        yield update


def adagrad(gradients, b1=0.9, b2=0.99, initial=0.3):
    total = np.full(3, initial)
    for g in gradients:
        total = total + g * g
        yield g / (np.sqrt(total) + EPS)


@pytest.mark.parametrize("formula", [adam, adamax, adadelta, adagrad], ids=lambda f: f.__name__)
def test_updates(formula):
    config = OptimizerConfig(
        name=formula.__name__, b1=0.9, b2=0.99, eps=EPS, initial_sum=0.3, clip_norm=0.0
    )
    optimizer = make_optimizer(config)
    params = {"w": jnp.zeros(3)}
    state = optimizer.init(params)
    for gradient, expected in zip(GRADIENTS, formula(GRADIENTS), strict=True):
        with jax.numpy_dtype_promotion("standard"):  # optax is not clean under "strict"
            gradients = {"w": jnp.asarray(gradient, jnp.float32)}
            updates, state = optimizer.update(gradients, state, params)
        np.testing.assert_allclose(updates["w"], expected, rtol=2e-4)


def test_fixed_parameters_have_no_l2():
    config = OptimizerConfig(name="adam", l2=0.1, clip_norm=0.0)
    params = {"fixed": jnp.ones(2), "layer": {"kernel": jnp.ones(2)}}
    optimizer = make_optimizer(config, ["fixed", "absent"])
    none = jax.tree.map(jnp.zeros_like, params)
    with jax.numpy_dtype_promotion("standard"):  # optax is not clean under "strict"
        updates, _ = optimizer.update(none, optimizer.init(params), params)
    np.testing.assert_array_equal(updates["fixed"], 0.0)
    assert (updates["layer"]["kernel"] > 0).all()


def test_the_last_layers_norm():
    """Limits each output's weights; other layers and smaller norms are unchanged."""
    kernel = jnp.float32([[3.0, 0.3], [4.0, 0.4]])
    params = {"hidden": {"kernel": kernel}, "output": {"kernel": kernel, "bias": kernel[0]}}
    limited = limit_output_norm(params, 2.5)
    np.testing.assert_allclose(limited["output"]["kernel"], [[1.5, 0.3], [2.0, 0.4]], rtol=1e-6)
    np.testing.assert_array_equal(limited["output"]["bias"], kernel[0])
    np.testing.assert_array_equal(limited["hidden"]["kernel"], kernel)
    assert limit_output_norm(params, 0.0) is params
    with pytest.raises(UserError, match=r"output_norm=2\.5: the model has no layer of outputs"):
        limit_output_norm({"output": {"bias": kernel[0]}}, 2.5)
