"""The training state: its tree, initialization, optimizer, and table of parameters."""

import dataclasses
import functools
import math
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax.sharding import AbstractMesh, Mesh
from jaxtyping import Array, Int

from common_jax.config import OptimizerConfig
from common_jax.io.parameters import named_parameters
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


def make_schedule(config: OptimizerConfig, steps: int) -> optax.Schedule:
    """The learning rate as a function of the steps already taken, in a run of `steps`.

    "rsqrt" is Vaswani et al. 2017, section 5.3, scaled to its peak: linear up to `warmup_steps`,
    then falling with 1/sqrt(step). The "exponential" warm-up is that of QANet's authors' code,
    0.01^(1 - step/warmup_steps): convex, and from a hundredth of the peak, not from zero.
    """
    config = config.scheduled(steps)
    warmup, exponential = max(config.warmup_steps, 1), config.warmup == "exponential"

    def schedule(count: Int[Array, ""]) -> Array:
        step = (count + 1).astype(jnp.float32)
        grown = jnp.minimum(step / warmup, 1.0)
        rate = config.learning_rate * (0.01 ** (1 - grown) if exponential else grown)
        if config.schedule == "rsqrt":
            rate = rate * jnp.minimum(jnp.sqrt(warmup / step), 1.0)
        if config.cooldown_steps:
            done = (step - config.cooldown_start) / config.cooldown_steps
            rate = rate * (1.0 - jnp.clip(done, 0.0, 1.0))
        return rate

    return schedule


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """L2, clipping by global norm, and Adam or Adamax (Kingma & Ba 2015), AdaDelta (Zeiler 2012) or
    AdaGrad (Duchi et al. 2011), without the learning rate."""
    clip = optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity()
    l2 = [optax.add_decayed_weights(config.l2)] if config.l2 else []
    scaled = {
        "adam": lambda: optax.scale_by_adam(config.b1, config.b2, config.eps),
        "adamax": lambda: optax.scale_by_adamax(config.b1, config.b2, config.eps),
        "adadelta": lambda: optax.scale_by_adadelta(config.b2, config.eps),
        "adagrad": lambda: _scale_by_adagrad(config.eps, config.initial_sum),
    }[config.name]()
    return optax.chain(*l2, clip, scaled)


def _scale_by_adagrad(eps: float, initial_sum: float) -> optax.GradientTransformation:
    """g / (sqrt(sum of g^2) + eps); optax adds `eps` inside the root, with which a first gradient
    of 1e-4 would move a parameter half as far as one of 1."""

    def update(gradient: Params, state: Any, params: Params | None = None) -> tuple[Params, Any]:
        sums = jax.tree.map(lambda s, g: s + g * g, state.sum_of_squares, gradient)
        scaled = jax.tree.map(lambda g, s: g / (jnp.sqrt(s) + eps), gradient, sums)
        return scaled, optax.ScaleByRssState(sums)

    def init(params: Params) -> optax.ScaleByRssState:
        return optax.ScaleByRssState(jax.tree.map(lambda p: jnp.full_like(p, initial_sum), params))

    return optax.GradientTransformation(init, update)


def limit_output_norm(params: Params, limit: float) -> Params:
    """The parameters with the weights of each output of the last layer, "output/kernel", scaled
    down to a norm of at most `limit` (Kim 2014, section 3); 0 is no limit."""
    if not limit:
        return params
    within = jax.vmap(lambda w: optax.projections.projection_l2_ball(w, limit), 1, 1)

    def limited(path: Any, values: Array) -> Array:
        names = [key.key for key in path[-2:]]
        return within(values) if names == ["output", "kernel"] else values

    return jax.tree.map_with_path(limited, params)


class InitialState:
    """The state before the first step: its shapes, and its arrays. JAX traces its function once."""

    def __init__(self, task: Task, mesh: Mesh | AbstractMesh):
        self._seed = task.config.train.seed
        self._fresh = functools.partial(_fresh, task)
        boxed = jax.eval_shape(self._fresh, jax.random.key(0))
        self._shardings = shardings(boxed, mesh)
        self.abstract = jax.tree.map(
            lambda a, sharding: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding),
            nn.unbox(boxed),
            self._shardings,
        )

    def make(self) -> TrainState:
        """The state, created with its sharding; the same on every mesh."""
        init = jax.jit(self._fresh, out_shardings=self._shardings)
        return nn.unbox(init(jax.random.key(self._seed)))


def abstract_state(task: Task, mesh: Mesh | AbstractMesh) -> TrainState:
    """Shapes, types and shardings of the state, without allocating it."""
    return InitialState(task, mesh).abstract


def init_state(task: Task, mesh: Mesh) -> TrainState:
    """The initial state, created with its sharding; the same on every mesh."""
    return InitialState(task, mesh).make()


def run_key(seed: int, mesh: Mesh) -> Array:
    """The random key of a run, on every device."""
    return jax.jit(lambda seed: jax.random.key(seed), out_shardings=replicated(mesh))(seed)


def _fresh(task: Task, key: Array) -> TrainState:
    """The state before the first step, with the boxes that name the axes of parameters and of the
    optimizer state."""
    params = task.init(key)
    ema = jax.tree.map(jnp.copy, params) if task.config.train.ema_decay else None
    opt_state = make_optimizer(task.config.optimizer).init(params)
    return TrainState(jnp.int32(0), jnp.int32(0), params, ema, opt_state)


def describe(task: Task) -> str:
    """The table of parameters: name, shape, count, sharding, bytes a device; totals of the training
    state, of the parameters without tables of word vectors if there are any, and of all parameters.
    For the mesh of the config, without needing its devices."""
    least = math.prod(max(1, size) for size in dataclasses.astuple(task.config.mesh))
    shape = mesh_shape(task.config.mesh, max(jax.device_count(), least))
    state = abstract_state(task, AbstractMesh(tuple(shape.values()), tuple(shape)))
    rows = [("parameter", "shape", "count", "sharding", "bytes/device")]
    parameters = named_parameters(state.params)
    for name, leaf in parameters.items():
        dims, axes = "x".join(map(str, leaf.shape)), [a or "-" for a in leaf.sharding.spec]
        spread = ",".join(axes) if any(leaf.sharding.spec) else "replicated"
        rows.append((name, dims, f"{leaf.size:,}", spread, f"{_bytes(leaf):,}"))
    is_table = lambda name, leaf: name.endswith("word_embedding") and leaf.ndim == 2
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
