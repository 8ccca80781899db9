"""The training step and the prediction step, compiled."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Int, Num

from common_jax.data.batches import Batch
from common_jax.scopes import scope
from common_jax.sharding import activations_on, row_shards
from common_jax.training.mesh import batch_sharding, replicated
from common_jax.training.multihost import with_compile_barrier
from common_jax.training.optimizer import limit_output_norm, make_optimizer, make_schedule
from common_jax.training.state import TrainState, abstract_state
from common_jax.training.task import Params, Task

Metrics = dict[str, Num[Array, "*k"]]


def make_train_step(task: Task, mesh: Mesh, abstract: TrainState | None = None) -> Any:
    """Optimizer steps, jitted: (state, k batches of one shape, key) -> (state, metrics, [k] each).

    The key is the run's, folded with the number of each step; it is an argument, so that all seeds
    share one program.

    The loss of a step is the batch's sum over the batch's weight, divided once over all devices and
    microbatches (`train.accumulate`). A step whose loss or gradient norm is not finite is counted
    and changes nothing else. The state is donated. Metrics: those of `Task.loss`, grad_norm (before
    clipping), learning_rate, bad_steps (in a row until then), and the size of the batch
    (`Task.count_units`), real and positions.

    Args:
      abstract: `abstract_state(task, mesh)`, if already computed.
    """
    # what all steps share
    config = task.config
    optimizer = make_optimizer(config.optimizer, task.fixed)
    schedule = make_schedule(config.optimizer, config.train.steps)
    shardings = jax.tree.map(lambda a: a.sharding, abstract or abstract_state(task, mesh))

    # a step
    def one_step(key: Array, state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        key = jax.random.fold_in(key, state.step)
        with activations_on(mesh):
            sums, gradient = _summed_gradient(task, state.params, batch, key)

        with scope("optimizer"):
            weight = jnp.maximum(sums.pop("weight"), 1.0)
            means, gradient = jax.tree.map(lambda a: a / weight, (sums, gradient))
            # else XLA may replicate the gradients of a sharded parameter
            gradient = jax.lax.with_sharding_constraint(gradient, shardings.params)
            state, metrics = apply_gradient(config, optimizer, schedule, state, means, gradient)

        real, positions = task.count_units(batch)
        return state, {**metrics, "real": real, "positions": jnp.int32(positions)}

    # one or several in a program
    def train_step(
        state: TrainState, batches: tuple[Batch, ...], key: Array
    ) -> tuple[TrainState, Metrics]:
        if len(batches) == 1:
            state, metrics = one_step(key, state, batches[0])
            return state, jax.tree.map(lambda a: a[None], metrics)
        stacked = jax.tree.map(lambda *a: jnp.stack(a), *batches)
        return jax.lax.scan(functools.partial(one_step, key), state, stacked)

    step = jax.jit(
        train_step,
        donate_argnums=0,
        in_shardings=(shardings, batch_sharding(mesh), replicated(mesh)),
        out_shardings=(shardings, replicated(mesh)),
    )
    return with_compile_barrier(step)


def apply_gradient(
    config: Any,
    optimizer: optax.GradientTransformation,
    schedule: optax.Schedule,
    state: TrainState,
    means: Metrics,
    gradient: Params,
) -> tuple[TrainState, Metrics]:
    """The state after an optimizer step, and the step's metrics.

    Args:
      config: of the run.
      optimizer: of the updates, before the learning rate.
      schedule: the learning rate of a step.
      state: before the step.
      means: of `Task.loss` over the batch, without the weight.
      gradient: of the mean "loss".
    """
    # a step that is not finite is counted
    norm = optax.tree.norm(gradient)
    finite = jnp.isfinite(means["loss"]) & jnp.isfinite(norm)
    bad_steps = jnp.where(finite, 0, state.bad_steps + 1)

    # and changes nothing else: by `cond`, since `where` for each array takes as long to compile as
    # the rest of a step
    rate = schedule(state.step)

    def updated() -> tuple[Params, Params | None, Any]:
        with jax.numpy_dtype_promotion("standard"):  # optax is not clean under "strict"
            updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
        params = limit_output_norm(params, config.optimizer.output_norm)
        ema = _updated_ema(state.ema, params, config.train.ema_decay, state.step)
        return params, ema, opt_state

    def unchanged() -> tuple[Params, Params | None, Any]:
        return state.params, state.ema, state.opt_state

    params, ema, opt_state = jax.lax.cond(finite, updated, unchanged)

    metrics = {**means, "grad_norm": norm, "learning_rate": rate, "bad_steps": bad_steps}
    return TrainState(state.step + 1, bad_steps, params, ema, opt_state), metrics


def _summed_gradient(
    task: Task, params: Params, batch: Batch, key: Array
) -> tuple[dict[str, Array], Params]:
    """The sums of `Task.loss` over a batch and the gradient of its "loss", one microbatch at a
    time."""

    def loss(params: Params, batch: Batch, key: Array) -> tuple[Array, dict[str, Array]]:
        sums = task.loss(params, batch, key)
        return sums["loss"], sums

    # of the batch at once
    gradient_of = jax.grad(loss, has_aux=True)
    count = task.config.train.accumulate
    if count == 1:
        gradient, sums = gradient_of(params, batch, key)
        return sums, gradient

    # or of one microbatch after the other
    def add(total: Any, inputs: tuple[Batch, Array]) -> tuple[Any, None]:
        microbatch, key = inputs
        gradient, sums = gradient_of(params, microbatch, key)
        return jax.tree.map(jnp.add, total, (sums, gradient)), None

    sums = jax.eval_shape(task.loss, params, batch, key)
    zeros = jax.tree.map(jnp.zeros_like, (sums, params))
    inputs = (_microbatches(batch, count), jax.random.split(key, count))
    return jax.lax.scan(add, zeros, inputs)[0]


def _microbatches(batch: Batch, count: int) -> Batch:
    """The microbatches, [count, rows, ...]: each has every `count`-th row of the batch, so that
    rows stay on their devices."""

    def split(a: Array) -> Array:
        return jnp.swapaxes(a.reshape(-1, count, *a.shape[1:]), 0, 1)

    return jax.tree.map(split, batch)


def _joined(microbatches: Any) -> Any:
    """The batch, or its outputs, of which `_microbatches` made these."""

    def join(a: Array) -> Array:
        return jnp.swapaxes(a, 0, 1).reshape(-1, *a.shape[2:])

    return jax.tree.map(join, microbatches)


def _updated_ema(
    ema: Params | None, params: Params, decay: float, step: Int[Array, ""]
) -> Params | None:
    """The moving average after step n, with the decay min(decay, (1+n)/(10+n))."""
    if ema is None:
        return None
    count = step.astype(jnp.float32)
    rate = jnp.minimum(decay, (1 + count) / (10 + count))
    return jax.tree.map(lambda e, p: rate * e + (1 - rate) * p, ema, params)


def make_predict_step(
    task: Task, mesh: Mesh, *, final: bool
) -> Callable[[Params, Batch], dict[str, Any]]:
    """Predictions for a batch and its "index", jitted: computed on all devices, then replicated.

    The parameters keep their sharding. As in training, there are `train.accumulate`
    microbatches, or fewer if a device's rows cannot be divided by it.
    """

    def predict(params: Params, batch: Batch) -> dict[str, Array]:
        return {"index": batch["index"], **task.predict_step(params, batch, final=final)}

    def predict_step(params: Params, batch: Batch) -> dict[str, Array]:
        rows = len(batch["index"]) // row_shards(mesh)
        count = math.gcd(rows, task.config.train.accumulate)

        # all at once, or in turn
        with activations_on(mesh):
            if count == 1:
                outputs = predict(params, batch)
            else:
                in_turn = functools.partial(predict, params)
                outputs = _joined(jax.lax.map(in_turn, _microbatches(batch, count)))
        return jax.lax.with_sharding_constraint(outputs, batch_sharding(mesh))

    step = jax.jit(
        predict_step, in_shardings=(None, batch_sharding(mesh)), out_shardings=replicated(mesh)
    )
    return with_compile_barrier(step)
