"""Beam search, one compiled loop for a batch of sentences of similar length.

Scores are log-probabilities, including the end symbol, divided by Wu et al.'s (2016) length penalty
((5 + length) / 6)^alpha, as in the CSAN authors' toolkit. The search of a sentence is closed when k
hypotheses have ended, when no open hypothesis can become better than the n-th best that has ended
(n translations are returned), or at the sentence's limit; hence its translation does not depend on
the rest of the batch. Only the k best candidates may end, so that a beam of one is greedy search.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from common_jax.pytrees import pytree
from csan_jax.data.subwords import END, PAD

NEG_INF = -jnp.inf  # log-probability of an empty slot

# (cache, previous [B, k], now, ancestry [B, k, steps*k]) -> (logits [B, k, V], cache)
Step = Callable[[Any, Array, Array, Array], tuple[Array, Any]]


@pytree()
class Beam:
    """The state of the search.

    Attributes:
      now: the next position.
      cache: the decoder's.
      open_scores, open_pieces: log-probabilities and pieces of the k open hypotheses.
      ancestry: the slot of each hypothesis's prefix in the beam at each position.
      ended_scores, ended_pieces: penalised scores and pieces of the k best ended hypotheses.
      closed: sentences whose search has finished.
    """

    now: Int[Array, ""]
    cache: Any
    open_scores: Float[Array, "B k"]
    open_pieces: Int[Array, "B k steps"]
    ancestry: Int[Array, "B k steps"]
    ended_scores: Float[Array, "B k"]
    ended_pieces: Int[Array, "B k steps"]
    closed: Bool[Array, "B"]


def beam_search(
    step: Step,
    cache: Any,
    limits: Int[Array, "B"],
    stages: Sequence[Any],
    beam_size: int,
    length_penalty: float,
    hypotheses: int = 1,
) -> tuple[Int[Array, "B n steps"], Float[Array, "B n"]]:
    """The n best translations of each sentence, best first, and their scores.

    Args:
      step: computes one position of the decoder.
      cache: the decoder's cache before the first position, a tree whose nodes with a method
        `extended(steps)` have a capacity of `stages[0]` positions.
      limits: the largest number of pieces of each translation, including the end symbol, at most
        `stages[-1]`; 0 for empty rows.
      stages: increasing capacities in positions, ints or symbolic dims. The cost of a step depends
        on the capacity, and few sentences come near their limit; each stage is compiled separately.
      beam_size: k.
      length_penalty: alpha; 0 compares plain log-probabilities.
      hypotheses: n, at most k.

    Returns:
      Pieces, with the end symbol and zero-padded; scores. Translations truncated at the limit,
      without the end symbol, follow those that have ended; an empty slot has the score -inf.
    """
    penalty = lambda length: ((5.0 + length) / 6.0) ** length_penalty
    nth = slice(hypotheses - 1, hypotheses)

    def advance(beam: Beam) -> Beam:
        logits, cache, ancestry = _decoder_step(step, beam)
        scores, parents, pieces = _candidates(beam.open_scores, logits, 2 * beam_size)
        length = (beam.now + 1).astype(jnp.float32)
        ends, last = pieces == END, (beam.now + 1 >= limits)[:, None]

        may_end = ends & (jnp.arange(2 * beam_size) < beam_size)[None]
        extended = _append(_take(beam.open_pieces, parents), beam.now, pieces)
        ended_scores = jnp.where(may_end, scores / penalty(length), NEG_INF)
        ended_scores, ended_pieces = _best(
            beam_size,
            jnp.concatenate([beam.ended_scores, ended_scores], axis=1),
            jnp.concatenate([beam.ended_pieces, extended], axis=1),
        )
        open_scores, open_pieces, ancestry = _best(
            beam_size, jnp.where(ends, NEG_INF, scores), extended, _take(ancestry, parents)
        )
        attainable = open_scores[:, :1] / penalty(limits.astype(jnp.float32))[:, None]
        closed = last | (ended_scores[:, -1:] > NEG_INF) | (ended_scores[:, nth] >= attainable)
        new = Beam(
            now=beam.now + 1,
            cache=cache,
            open_scores=open_scores,
            open_pieces=open_pieces,
            ancestry=ancestry,
            ended_scores=ended_scores,
            ended_pieces=ended_pieces,
            closed=closed[:, 0],
        )
        return _freeze_finished(beam, new)

    beam = _start(cache, limits, stages[0], beam_size)
    for steps in stages:
        unfinished = lambda beam, steps=steps: (beam.now < steps) & ~beam.closed.all()
        beam = jax.lax.while_loop(unfinished, advance, _extend(beam, steps))
    ended = (beam.ended_scores > NEG_INF).sum(axis=1, keepdims=True)
    slots = jnp.arange(hypotheses)[None]
    rows = jnp.where(slots < ended, slots, beam_size + slots - ended)
    cut_off = beam.open_scores / penalty(limits.astype(jnp.float32))[:, None]
    scores = jnp.concatenate([beam.ended_scores, cut_off], axis=1)
    pieces = jnp.concatenate([beam.ended_pieces, beam.open_pieces], axis=1)
    return _take(pieces, rows), jnp.take_along_axis(scores, rows, axis=1)


def _start(cache: Any, limits: Array, steps: Any, beam_size: int) -> Beam:
    """The beam with the empty hypothesis in the first slot and no hypotheses in the others."""
    shape = (limits.shape[0], beam_size)
    pieces = jnp.zeros((*shape, steps), jnp.int32)
    empty = jnp.full(shape, NEG_INF)
    return Beam(
        now=jnp.int32(0),
        cache=cache,
        open_scores=empty.at[:, 0].set(0.0),
        open_pieces=pieces,
        ancestry=pieces,
        ended_scores=empty,
        ended_pieces=pieces,
        closed=limits <= 0,
    )


def _extend(beam: Beam, steps: Any) -> Beam:
    """The beam with a capacity of `steps` positions."""
    more = ((0, 0), (0, 0), (0, steps - beam.ancestry.shape[2]))
    grows = lambda node: hasattr(node, "extended")
    return dataclasses.replace(
        beam,
        cache=jax.tree.map(lambda node: node.extended(steps), beam.cache, is_leaf=grows),
        open_pieces=jnp.pad(beam.open_pieces, more),
        ancestry=jnp.pad(beam.ancestry, more),
        ended_pieces=jnp.pad(beam.ended_pieces, more),
    )


def _decoder_step(step: Step, beam: Beam) -> tuple[Array, Any, Array]:
    """Runs the decoder at one position, where the ancestry of each hypothesis is its own slot."""
    sentences, beam_size, steps = beam.ancestry.shape
    slots = jnp.arange(beam_size)
    own_slots = jnp.broadcast_to(slots[None, :], (sentences, beam_size))
    ancestry = _append(beam.ancestry, beam.now, own_slots)
    past = (jnp.arange(steps) <= beam.now)[None, None, :, None]
    allowed = (ancestry[..., None] == slots[None, None, None]) & past
    previous = jax.lax.dynamic_index_in_dim(
        beam.open_pieces, jnp.maximum(beam.now - 1, 0), axis=2, keepdims=False
    )
    allowed = allowed.reshape(sentences, beam_size, steps * beam_size)
    logits, cache = step(beam.cache, previous, beam.now, allowed)
    return logits, cache, ancestry


def _candidates(
    open_scores: Float[Array, "B k"], logits: Float[Array, "B k V"], count: int
) -> tuple[Float[Array, "B c"], Int[Array, "B c"], Int[Array, "B c"]]:
    """The best continuations: scores, parent hypotheses, and pieces."""
    logits = logits.at[..., PAD].set(-jnp.inf)
    sizes = logits.shape[-1]
    logp = jax.nn.log_softmax(logits) + open_scores[..., None]
    scores, flat = _top_k(logp.reshape(logp.shape[0], -1), count)
    return scores, flat // sizes, flat % sizes


def _top_k(x: Float[Array, "B n"], count: int) -> tuple[Float[Array, "B c"], Int[Array, "B c"]]:
    """`jax.lax.top_k`, five times as fast on a CPU: searches only the groups with the largest
    maxima."""
    group = 64
    if x.shape[1] < 4 * count * group:
        return tuple(jax.lax.top_k(x, count))
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % group)), constant_values=NEG_INF)
    x = x.reshape(x.shape[0], -1, group)
    _, groups = jax.lax.top_k(x.max(axis=2), count)
    members = _take(x, jnp.sort(groups, axis=1)).reshape(x.shape[0], -1)
    scores, at = jax.lax.top_k(members, count)
    groups = jnp.take_along_axis(jnp.sort(groups, axis=1), at // group, axis=1)
    return scores, groups * group + at % group


def _best(count: int, scores: Array, *arrays: Array) -> tuple[Array, ...]:
    """The `count` best scores, and the arrays' rows for them."""
    scores, rows = jax.lax.top_k(scores, count)
    return scores, *(_take(array, rows) for array in arrays)


def _take(array: Num[Array, "B n steps"], rows: Int[Array, "B c"]) -> Num[Array, "B c steps"]:
    return jnp.take_along_axis(array, rows[..., None], axis=1)


def _append(
    pieces: Int[Array, "B c steps"], now: Array, piece: Int[Array, "B c"]
) -> Int[Array, "B c steps"]:
    return jax.lax.dynamic_update_slice_in_dim(pieces, piece[..., None], now, axis=2)


def _freeze_finished(old: Beam, new: Beam) -> Beam:
    """`new` for open sentences, `old` for closed ones."""
    keep = lambda a, b: jnp.where(old.closed.reshape(-1, *[1] * (a.ndim - 1)), a, b)
    names = {field.name for field in dataclasses.fields(Beam)} - {"now", "cache"}
    fields = {name: keep(getattr(old, name), getattr(new, name)) for name in sorted(names)}
    return dataclasses.replace(new, **fields)
