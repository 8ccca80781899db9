"""From pointers to spans: the most likely s <= e < s + length."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def best_spans(
    start: Float[Array, "B N"], end: Float[Array, "B N"], length: int, count: int = 1
) -> tuple[Int[Array, "B k"], Int[Array, "B k"], Float[Array, "B k"]]:
    """The spans with the largest start[s] + end[e], best first (section 2.2, "Inference").

    Every start has at most `length` ends, so that time and memory grow with N, not with its square.

    Args:
      start, end: logits; very negative where no span may start or end.
      length: most words of a span.
      count: how many spans; fewer if there are fewer. Where N is symbolic they are so many, and
        what is behind the last one ends behind the last word.

    Returns:
      s, e (both inclusive) and their scores; among equal scores the first start, then the first
      end.
    """
    size, beyond = start.shape[1], jnp.finfo(end.dtype).min
    symbolic = not isinstance(size, int)  # an export's, which is not compared
    if not symbolic:
        length = min(length, size)
        count = min(count, sum(size - n for n in range(length)))
    padded = jnp.pad(end, ((0, 0), (0, length - 1)), constant_values=beyond)
    scores = jnp.stack([start + padded[:, n : n + size] for n in range(length)], axis=2)
    scores = scores.reshape(start.shape[0], size * length)
    if symbolic:  # so that there are `count`, whatever the size
        scores = jnp.pad(scores, ((0, 0), (0, count)), constant_values=beyond)
    found, at = jax.lax.top_k(scores, count)
    first, more = at // length, at % length
    return first, first + more, found
