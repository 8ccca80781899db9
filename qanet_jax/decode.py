"""Decodes answer spans from pointer logits: the most probable s <= e < s + length."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def best_spans(
    start: Float[Array, "B N"], end: Float[Array, "B N"], length: int, count: int = 1
) -> tuple[Int[Array, "B k"], Int[Array, "B k"], Float[Array, "B k"]]:
    """The spans with the largest start[s] + end[e] (section 2.2, "Inference"), in time and memory
    linear in N.

    Args:
      start, end: logits; very negative where no span may start or end.
      length: largest number of words in a span.
      count: number of spans; fewer are returned if fewer exist. With a symbolic N `count` spans are
        always returned; invalid ones end after the last word.

    Returns:
      s, e (inclusive) and the scores; spans with equal scores are ordered by start, then by end.
    """
    size = start.shape[1]
    beyond = jnp.finfo(end.dtype).min
    symbolic = not isinstance(size, int)  # of an export, which cannot be compared
    if not symbolic:
        length = min(length, size)
        count = min(count, sum(size - n for n in range(length)))

    # the scores of all spans, [B, N * length]
    padded = jnp.pad(end, ((0, 0), (0, length - 1)), constant_values=beyond)
    scores = jnp.stack([start + padded[:, n : n + size] for n in range(length)], axis=2)
    scores = scores.reshape(start.shape[0], size * length)
    if symbolic:  # for at least `count` spans with any size
        scores = jnp.pad(scores, ((0, 0), (0, count)), constant_values=beyond)

    # the best
    best, spans = jax.lax.top_k(scores, count)
    first = spans // length
    return first, first + spans % length, best
