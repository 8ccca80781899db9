"""Label-smoothed cross-entropy."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def cross_entropy(
    logits: Float[Array, "B T V"], targets: Int[Array, "B T"], smoothing: float
) -> tuple[Float[Array, "B T"], Float[Array, "B T"]]:
    """The smoothed and the unsmoothed loss of each position, in nats.

    The target distribution is (1 - smoothing) on the piece and `smoothing` uniform over the
    vocabulary (Szegedy et al. 2016, section 7), without materializing it. The gradient, of the
    smoothed loss only, is written out for a single pass over [B, T, V], a tenth of a step.
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

    # softmax minus the target distribution
    size = logits.shape[-1]
    hit = jnp.arange(size)[None, None] == targets[..., None]
    expected = jnp.where(hit, 1 - smoothing + smoothing / size, smoothing / size)
    return cotangents[0][..., None] * (jnp.exp(logits - normaliser[..., None]) - expected), None


cross_entropy.defvjp(_cross_entropy_forward, _cross_entropy_backward)
