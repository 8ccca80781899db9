"""The state of training: one tree, and what makes, counts and names it."""

import hashlib
from typing import Any

import flax
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from jaxtyping import Array, Int

from common_jax.training.config import OptimizerConfig
from common_jax.training.mesh import replicated
from common_jax.training.task import Params, Task


@flax.struct.dataclass
class TrainState:
    """All that a step changes. Random keys are the seed's, folded with `step`."""

    step: Int[Array, ""]
    params: Params
    opt_state: Any


def make_schedule(config: OptimizerConfig) -> optax.Schedule:
    """The learning rate as a function of the steps already taken.

    "rsqrt" is Vaswani et al. 2017, section 5.3, scaled to its peak: linear up to `warmup_steps`,
    then falling with 1/sqrt(step).
    """
    warmup = max(config.warmup_steps, 1)

    def schedule(count: Int[Array, ""]) -> Array:
        step = (count + 1).astype(jnp.float32)
        rate = config.learning_rate * jnp.minimum(step / warmup, 1.0)
        if config.schedule == "rsqrt":
            rate = rate * jnp.minimum(jnp.sqrt(warmup / step), 1.0)
        if config.cooldown_steps:
            done = (step - config.cooldown_start) / config.cooldown_steps
            rate = rate * (1.0 - jnp.clip(done, 0.0, 1.0))
        return rate

    return schedule


def make_optimizer(config: OptimizerConfig) -> optax.GradientTransformation:
    """Clipping by global norm, then Adam (Kingma & Ba 2015)."""
    clip = optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity()
    adam = optax.adam(make_schedule(config), config.b1, config.b2, config.eps)
    return optax.chain(clip, adam)


def init_state(
    task: Task, optimizer: optax.GradientTransformation, seed: int, mesh: Mesh
) -> TrainState:
    """A fresh state, made where it will lie; the same on every mesh."""

    def init(key: Array) -> TrainState:
        params = task.init(key)
        return TrainState(jnp.int32(0), params, optimizer.init(params))

    return jax.jit(init, out_shardings=replicated(mesh))(jax.random.key(seed))


def named_parameters(params: Params) -> dict[str, Any]:
    """Parameters by their "a/b/c" name, sorted by it."""
    return dict(sorted(flax.traverse_util.flatten_dict(params, sep="/").items()))


def parameters_sha256(params: Params) -> str:
    """A digest of names, types, shapes and every bit of the parameters."""
    digest = hashlib.sha256()
    for name, value in named_parameters(params).items():
        array = np.asarray(value)
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def describe(task: Task) -> str:
    """The table of parameters: name, shape, count, sharding, bytes a device; and their total."""
    abstract = named_parameters(jax.eval_shape(task.init, jax.random.key(0)))
    rows = [("parameter", "shape", "count", "sharding", "bytes/device")]
    for name, leaf in abstract.items():
        shape, size = "x".join(map(str, leaf.shape)), leaf.size * leaf.dtype.itemsize
        rows.append((name, shape, f"{leaf.size:,}", "replicated", f"{size:,}"))
    count = sum(leaf.size for leaf in abstract.values())
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in abstract.values())
    rows.append(("total", "", f"{count:,}", "", f"{size:,}"))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i in (0, 1, 3) else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
