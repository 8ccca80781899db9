"""The training state: its tree and initialization."""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh
from jaxtyping import Array, Int

from common_jax.numerics import random_key
from common_jax.pytrees import pytree
from common_jax.training.mesh import replicated, shardings
from common_jax.training.task import Params, Task


@pytree()
class TrainState:
    """The state that a step changes. Random keys are the seed's, folded with `step`.

    Attributes:
      step: steps taken, including those not applied.
      bad_steps: the number of last steps in a row that were not finite and thus not applied.
      params: float32.
      ema: the parameters' exponential moving average, or None.
      opt_state: of the optimizer.
    """

    step: Int[Array, ""]
    bad_steps: Int[Array, ""]
    params: Params
    ema: Params | None
    opt_state: Any

    @property
    def inference_params(self) -> Params:
        """The parameters for validation, scoring and export."""
        return self.params if self.ema is None else self.ema


class InitialState:
    """The state before the first step: `abstract`, its shapes, types and shardings, and `make`."""

    def __init__(self, task: Task, mesh: Mesh | AbstractMesh):
        self._seed = task.config.train.seed
        self._initial_state = functools.partial(_initial_state, task)
        boxed = jax.eval_shape(self._initial_state, random_key(0))
        self._shardings = shardings(boxed, mesh)
        self.abstract = _on_mesh(boxed, self._shardings)

    def make(self) -> TrainState:
        """The state, created with its sharding; the same on every mesh."""
        init = jax.jit(self._initial_state, out_shardings=self._shardings)
        return nn.unbox(init(random_key(self._seed)))


def abstract_parameters(task: Task, mesh: Mesh | AbstractMesh) -> Params:
    """Shapes, types and shardings of the parameters, without tracing the rest of the state."""
    boxed = jax.eval_shape(task.init, random_key(0))
    return _on_mesh(boxed, shardings(boxed, mesh))


def _on_mesh(boxed: Any, sharding_tree: Any) -> Any:
    """The shapes and types of boxed ones, with shardings."""

    def with_sharding(a, sharding):
        return jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding)

    return jax.tree.map(with_sharding, nn.unbox(boxed), sharding_tree)


def abstract_state(task: Task, mesh: Mesh | AbstractMesh) -> TrainState:
    """Shapes, types and shardings of the state, without allocating it."""
    return InitialState(task, mesh).abstract


def init_state(task: Task, mesh: Mesh) -> TrainState:
    """The initial state, created with its sharding; the same on every mesh."""
    return InitialState(task, mesh).make()


def run_key(seed: int, mesh: Mesh) -> Array:
    """The random key of a run, on every device."""
    return jax.jit(random_key, out_shardings=replicated(mesh))(seed)


def _initial_state(task: Task, key: Array) -> TrainState:
    """The state before the first step, boxed with the names of the axes."""
    # imports optax, which reading a run does not need
    from common_jax.training.optimizer import make_optimizer

    params = task.init(key)
    ema = jax.tree.map(jnp.copy, params) if task.config.train.ema_decay else None
    opt_state = make_optimizer(task.config.optimizer, task.fixed).init(params)
    return TrainState(jnp.int32(0), jnp.int32(0), params, ema, opt_state)
