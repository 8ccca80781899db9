"""The training step and the prediction step, compiled."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Float

from common_jax.data.batches import Batch
from common_jax.training.mesh import by_rows, replicated
from common_jax.training.state import TrainState
from common_jax.training.task import Params, Task

Metrics = dict[str, Float[Array, ""]]


def make_train_step(
    task: Task, optimizer: optax.GradientTransformation, seed: int, mesh: Mesh
) -> Callable[[TrainState, Batch], tuple[TrainState, Metrics]]:
    """One optimizer step: (state, batch) -> (state, loss, nll and gradient norm).

    The loss is the batch's sum over the batch's weight, divided once over all devices; the old
    state's memory is given to the new one.
    """

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Metrics]:
        key = jax.random.fold_in(jax.random.key(seed), state.step)

        def mean_loss(params: Params) -> tuple[Array, dict[str, Array]]:
            sums = task.loss(params, batch, key)
            weight = jnp.maximum(sums["weight"], 1.0)
            return sums["loss"] / weight, {"nll": sums["nll"] / weight}

        (loss, aux), gradient = jax.value_and_grad(mean_loss, has_aux=True)(state.params)
        with jax.numpy_dtype_promotion("standard"):  # optax is not clean under our tests' "strict"
            updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        metrics = {"loss": loss, **aux, "grad_norm": optax.global_norm(gradient)}
        return TrainState(state.step + 1, params, opt_state), metrics

    return jax.jit(
        train_step,
        donate_argnums=0,
        in_shardings=(replicated(mesh), by_rows(mesh)),
        out_shardings=replicated(mesh),
    )


def make_predict_step(
    task: Task, mesh: Mesh, *, final: bool
) -> Callable[[Params, Batch], dict[str, Any]]:
    """Predictions for a batch, rows spread as the batch's are."""
    return jax.jit(
        functools.partial(task.predict_step, final=final),
        in_shardings=(replicated(mesh), by_rows(mesh)),
        out_shardings=by_rows(mesh),
    )
