"""The training state: its tree, initialization, and table of parameters."""

import dataclasses
import functools
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh
from jaxtyping import Array, Int

from common_jax.io.parameters import named_parameters
from common_jax.numerics import random_key
from common_jax.pytrees import pytree
from common_jax.training.mesh import mesh_shape, replicated, shardings
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


def describe(task: Task) -> str:
    """The table of parameters: name, shape, count, sharding, bytes per device; totals of the state,
    of parameters without word vectors, and of all. Needs none of the devices of the config's mesh.
    """
    least = math.prod(max(1, size) for size in dataclasses.astuple(task.config.mesh))
    shape = mesh_shape(task.config.mesh, max(jax.device_count(), least))
    state = abstract_state(task, AbstractMesh(tuple(shape.values()), tuple(shape)))
    rows = [("parameter", "shape", "count", "sharding", "bytes/device")]
    parameters = named_parameters(state.params)
    for name, leaf in parameters.items():
        dims = "x".join(map(str, leaf.shape))
        axes = [a or "-" for a in leaf.sharding.spec]
        spread = ",".join(axes) if any(leaf.sharding.spec) else "replicated"
        rows.append((name, dims, f"{leaf.size:,}", spread, f"{_bytes(leaf):,}"))

    def is_table(name, leaf):
        return name.endswith("word_embedding") and leaf.ndim == 2

    model_leaves = [leaf for name, leaf in parameters.items() if not is_table(name, leaf)]
    without = {"without word vectors": model_leaves} if len(model_leaves) < len(parameters) else {}
    for name, tree in {"with optimizer and EMA": state, **without, "total": state.params}.items():
        leaves = jax.tree.leaves(tree)
        count = sum(leaf.size for leaf in leaves)
        rows.append((name, "", f"{count:,}", "", f"{sum(map(_bytes, leaves)):,}"))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i in (0, 1, 3) else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _bytes(leaf: jax.ShapeDtypeStruct) -> int:
    """The bytes of an array on one device."""
    return math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
