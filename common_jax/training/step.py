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
    parts of the batch (`train.accumulate`). A step whose loss or gradient norm is not finite is
    counted and changes nothing else. The state is donated. Metrics: those of `Task.loss`, grad_norm
    (before clipping), learning_rate, bad_steps (in a row until then), and the size of the batch
    (`Task.count_units`), real and positions.

    Args:
      abstract: `abstract_state(task, mesh)`, if already computed.
    """
    config = task.config.train
    optimizer = make_optimizer(task.config.optimizer, task.fixed)
    schedule = make_schedule(task.config.optimizer, config.steps)
    state_shardings = jax.tree.map(lambda a: a.sharding, abstract or abstract_state(task, mesh))

    def one_step(key: Array, state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        key = jax.random.fold_in(key, state.step)
        with activations_on(mesh):
            sums, gradient = _summed_gradient(task, state.params, batch, key, config.accumulate)
        with scope("optimizer"):
            state, metrics = apply(state, sums, gradient)
        real, positions = task.count_units(batch)
        return state, {**metrics, "real": real, "positions": jnp.int32(positions)}

    def apply(state: TrainState, sums: Metrics, gradient: Params) -> tuple[TrainState, Metrics]:
        weight = jnp.maximum(sums["weight"], 1.0)
        gradient = jax.tree.map(lambda g: g / weight, gradient)
        # else XLA may replicate the gradients of a sharded parameter
        gradient = jax.lax.with_sharding_constraint(gradient, state_shardings.params)
        norm, loss = optax.tree.norm(gradient), sums["loss"] / weight
        rate = schedule(state.step)

        def update() -> tuple[Params, Params | None, Any]:
            with jax.numpy_dtype_promotion("standard"):  # optax is not clean under "strict"
                updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
            params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
            params = limit_output_norm(params, task.config.optimizer.output_norm)
            return params, _update_ema(state.ema, params, config.ema_decay, state.step), opt_state

        finite = jnp.isfinite(loss) & jnp.isfinite(norm)
        # `cond`, since `where` for each array takes as long to compile as the rest of a step
        unchanged = lambda: (state.params, state.ema, state.opt_state)
        params, ema, opt_state = jax.lax.cond(finite, update, unchanged)
        bad_steps = jnp.where(finite, 0, state.bad_steps + 1)
        metrics = {
            **{name: total / weight for name, total in sums.items() if name != "weight"},
            "grad_norm": norm,
            "learning_rate": rate,
            "bad_steps": bad_steps,
        }
        return TrainState(state.step + 1, bad_steps, params, ema, opt_state), metrics

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
        in_shardings=(state_shardings, batch_sharding(mesh), replicated(mesh)),
        out_shardings=(state_shardings, replicated(mesh)),
    )
    return with_compile_barrier(step)


def _summed_gradient(
    task: Task, params: Params, batch: Batch, key: Array, parts: int
) -> tuple[dict[str, Array], Params]:
    """The sums of `Task.loss` over a batch and the gradient of its "loss", computed in parts."""

    def loss(params: Params, batch: Batch, key: Array) -> tuple[Array, dict[str, Array]]:
        sums = task.loss(params, batch, key)
        return sums["loss"], sums

    gradient_of = jax.grad(loss, has_aux=True)
    if parts == 1:
        gradient, sums = gradient_of(params, batch, key)
        return sums, gradient

    def add(total: Any, part: tuple[Batch, Array]) -> tuple[Any, None]:
        gradient, sums = gradient_of(params, *part)
        return jax.tree.map(jnp.add, total, (sums, gradient)), None

    batches, keys = _split(batch, parts), jax.random.split(key, parts)
    sums = jax.eval_shape(task.loss, params, batch, key)
    empty = jax.tree.map(jnp.zeros_like, (sums, params))
    return jax.lax.scan(add, empty, (batches, keys))[0]


def _split(batch: Batch, parts: int) -> Batch:
    """The parts of a batch, [parts, rows of a part, ...]: each has every `parts`-th row, so that
    rows stay on their devices."""
    split = lambda a: jnp.swapaxes(a.reshape(-1, parts, *a.shape[1:]), 0, 1)
    return jax.tree.map(split, batch)


def _update_ema(
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

    The parameters keep their sharding. As in training, a batch is computed in `train.accumulate`
    parts, or in fewer if its rows on a device cannot be divided by it.
    """

    def predict(params: Params, batch: Batch) -> dict[str, Array]:
        return {"index": batch["index"], **task.predict_step(params, batch, final=final)}

    def predict_step(params: Params, batch: Batch) -> dict[str, Array]:
        rows = len(batch["index"]) // row_shards(mesh)
        microbatches = math.gcd(rows, task.config.train.accumulate)
        with activations_on(mesh):
            if microbatches == 1:
                outputs = predict(params, batch)
            else:
                results = jax.lax.map(
                    functools.partial(predict, params), _split(batch, microbatches)
                )
                join = lambda a: jnp.swapaxes(a, 0, 1).reshape(-1, *a.shape[2:])
                outputs = jax.tree.map(join, results)
        return jax.lax.with_sharding_constraint(outputs, batch_sharding(mesh))

    step = jax.jit(
        predict_step, in_shardings=(None, batch_sharding(mesh)), out_shardings=replicated(mesh)
    )
    return with_compile_barrier(step)
