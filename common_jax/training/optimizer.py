"""The optimizers, the schedule of the learning rate, and the limit of the output layer's norm."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from common_jax.config import OptimizerConfig
from common_jax.fields import require
from common_jax.training.task import Params


def make_schedule(config: OptimizerConfig, steps: int) -> optax.Schedule:
    """The learning rate as a function of the steps already taken, in a run of `steps`.

    "rsqrt" is Vaswani et al. 2017, section 5.3, scaled to its peak: linear up to `warmup_steps`,
    then falling with 1/sqrt(step). The "exponential" warm-up is that of QANet's authors' code,
    0.01^(1 - step/warmup_steps): convex, and from a hundredth of the peak, not from zero.
    """
    config = config.scheduled(steps)
    warmup = max(config.warmup_steps, 1)
    exponential = config.warmup == "exponential"

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


def make_optimizer(
    config: OptimizerConfig, fixed: Sequence[str] = ()
) -> optax.GradientTransformation:
    """L2, clipping by global norm, and Adam or Adamax (Kingma & Ba 2015), AdaDelta (Zeiler 2012) or
    AdaGrad (Duchi et al. 2011), without the learning rate.

    Args:
      fixed: as `Task.fixed`, without L2.
    """
    clip = optax.clip_by_global_norm(config.clip_norm) if config.clip_norm else optax.identity()

    def decayed(params):
        return {name: name not in fixed for name in params}

    l2 = [optax.add_decayed_weights(config.l2, decayed if fixed else None)] if config.l2 else []
    scaled = {
        "adam": lambda: optax.scale_by_adam(config.b1, config.b2, config.eps),
        "adamax": lambda: optax.scale_by_adamax(config.b1, config.b2, config.eps),
        "adadelta": lambda: optax.scale_by_adadelta(config.b2, config.eps),
        "adagrad": lambda: _scale_by_adagrad(config.eps, config.initial_sum),
    }[config.name]()
    return optax.chain(*l2, clip, scaled)


def _scale_by_adagrad(eps: float, initial_sum: float) -> optax.GradientTransformation:
    """g / (sqrt(sum of g^2) + eps). Optax adds `eps` inside the root: with it, a first gradient of
    1e-4 moves a parameter half as far as one of 1."""

    def update(gradient: Params, state: Any, params: Params | None = None) -> tuple[Params, Any]:
        sums = jax.tree.map(lambda s, g: s + g * g, state.sum_of_squares, gradient)
        scaled = jax.tree.map(lambda g, s: g / (jnp.sqrt(s) + eps), gradient, sums)
        return scaled, optax.ScaleByRssState(sums)

    def init(params: Params) -> optax.ScaleByRssState:
        return optax.ScaleByRssState(jax.tree.map(lambda p: jnp.full_like(p, initial_sum), params))

    return optax.GradientTransformation(init, update)


def limit_output_norm(params: Params, limit: float) -> Params:
    """The parameters with the weights of each output of the last layer, "output/kernel", scaled
    down to a norm of at most `limit` (Kim 2014, section 3); 0 is no limit.

    Raises:
      UserError: if there is no such layer.
    """
    if not limit:
        return params
    within = jax.vmap(lambda w: optax.projections.projection_l2_ball(w, limit), 1, 1)

    def is_output(path):
        return [key.key for key in path[-2:]] == ["output", "kernel"]

    paths = [path for path, _ in jax.tree.leaves_with_path(params)]
    require(
        any(map(is_output, paths)),
        f"optimizer.output_norm={limit}: the model has no layer of outputs with weights of its own",
    )

    def limited(path, values):
        return within(values) if is_output(path) else values

    return jax.tree.map_with_path(limited, params)
