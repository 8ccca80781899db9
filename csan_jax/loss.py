"""Label-smoothed cross-entropy."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def cross_entropy(
    logits: Float[Array, "B T V"], targets: Int[Array, "B T"], smoothing: float
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """Each position's smoothed loss and its unsmoothed one, in nats.

    The target's distribution is (1 - smoothing) on the piece and `smoothing` spread evenly over
    the vocabulary (Szegedy et al. 2016, section 7); it is never built. The gradient, which is the
    smoothed loss's alone, is written out because its one pass over [B, T, V] is a tenth of a step.
    """
    return _cross_entropy_forward(logits, targets, smoothing)[0]


def _cross_entropy_forward(logits: Array, targets: Array, smoothing: float):
    normaliser = jax.nn.logsumexp(logits, axis=-1)
    hit = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    nll = normaliser - hit
    loss = nll + smoothing * (hit - logits.mean(axis=-1)) if smoothing else nll
    return (loss, nll), (logits, targets, normaliser)


def _cross_entropy_backward(smoothing: float, saved: tuple, cotangents: tuple):
    logits, targets, normaliser = saved
    size = logits.shape[-1]
    hit = jnp.arange(size)[None, None] == targets[..., None]
    wanted = jnp.where(hit, 1 - smoothing + smoothing / size, smoothing / size)
    return cotangents[0][..., None] * (jnp.exp(logits - normaliser[..., None]) - wanted), None


cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)
