"""Beam search, one compiled loop for a batch of sentences of similar length.

Scores are log-probabilities, including the end symbol, divided by Wu et al.'s (2016) length penalty
((5 + length) / 6)^alpha, as in the CSAN authors' toolkit. The search of a sentence finishes when k
hypotheses have ended, when no open hypothesis can become better than the n-th best that has ended
(n translations are returned), or at the sentence's limit; hence its translation does not depend on
the rest of the batch. Only the k best candidates may end, so that a beam of one is greedy search.
Of continuations with equal scores those of the better hypothesis come first, then lower ids.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from common_jax.pytrees import pytree
from csan_jax.data.subwords import END, PAD

Dim = Any  # an int, or a symbolic dim of an export
NEG_INF = -jnp.inf  # log-probability of an empty slot

# (cache, inputs, previous [B, k], now, ancestry [B, k, steps*k]) -> (logits [B, k, V], cache)
Step = Callable[[Any, Any, Array, Array, Array], tuple[Array, Any]]


class Stage(NamedTuple):
    """A loop of the search, which is compiled separately.

    Attributes:
      rows: number of sentences.
      steps: capacity in positions, on which the cost of a step depends.
      remaining: it ends when at most this number of sentences is unfinished; 0 in the last stage.
    """

    rows: Dim
    steps: Dim
    remaining: Dim = 0


@pytree()
class Beam:
    """The state of the search.

    Attributes:
      now: the next position.
      cache: the decoder's.
      inputs: the decoder's inputs that are the same at all positions.
      limits: the largest number of pieces of each translation.
      open_scores, open_pieces: log-probabilities and pieces of the k open hypotheses.
      ancestry: the slot of each hypothesis's prefix in the beam at each position.
      ended_scores, ended_pieces: penalised scores and pieces of the k best ended hypotheses.
      finished: sentences whose search has finished.
    """

    now: Int[Array, ""]
    cache: Any
    inputs: Any
    limits: Int[Array, "B"]
    open_scores: Float[Array, "B k"]
    open_pieces: Int[Array, "B k steps"]
    ancestry: Int[Array, "B k steps"]
    ended_scores: Float[Array, "B k"]
    ended_pieces: Int[Array, "B k steps"]
    finished: Bool[Array, "B"]


# The fields from which translations are made.
RESULTS = ("open_scores", "open_pieces", "ended_scores", "ended_pieces", "finished")


def beam_search(
    step: Step,
    cache: Any,
    inputs: Any,
    limits: Int[Array, "B"],
    stages: Sequence[Stage],
    beam_size: int,
    length_penalty: float,
    hypotheses: int = 1,
) -> tuple[Int[Array, "B n steps"], Float[Array, "B n"]]:
    """The n best translations of each sentence, best first, and their scores.

    Args:
      step: computes one position of the decoder.
      cache: the decoder's cache before the first position, a tree of arrays [B, ...] whose nodes
        with a method `extended(steps)` have a capacity of `stages[0].steps` positions.
      inputs: a tree of arrays [B, ...], for `step`.
      limits: the largest number of pieces of each translation, including the end symbol, at most
        `stages[-1].steps`; 0 for empty rows.
      stages: the first one with all B rows, later ones with as many rows or fewer, and increasing
        capacities. Few sentences come near their limit: a stage with fewer rows continues with the
        unfinished sentences alone, in groups of its number of rows.
      beam_size: k.
      length_penalty: alpha; 0 compares plain log-probabilities.
      hypotheses: n, at most k.

    Returns:
      Pieces, with the end symbol and zero-padded; scores. Translations truncated at the limit,
      without the end symbol, follow those that have ended; an empty slot has the score -inf.
    """
    nth = slice(hypotheses - 1, hypotheses)

    def penalty(length: Array) -> Array:
        return ((5.0 + length) / 6.0) ** length_penalty

    def advance(beam: Beam) -> Beam:
        # the candidates
        logits, cache, ancestry = _decoder_step(step, beam)
        scores, parents, pieces = _candidates(beam.open_scores, logits, 2 * beam_size)
        extended = _append(_take(beam.open_pieces, parents), beam.now, pieces)

        # those that end
        ends = pieces == END
        may_end = ends & (jnp.arange(2 * beam_size) < beam_size)[None]
        length = (beam.now + 1).astype(jnp.float32)
        ended_scores = jnp.where(may_end, scores / penalty(length), NEG_INF)
        ended_scores, ended_pieces = _best(
            beam_size,
            jnp.concatenate([beam.ended_scores, ended_scores], axis=1),
            jnp.concatenate([beam.ended_pieces, extended], axis=1),
        )

        # those that stay open
        open_scores, open_pieces, ancestry = _best(
            beam_size, jnp.where(ends, NEG_INF, scores), extended, _take(ancestry, parents)
        )

        # whether the search of a sentence has finished
        attainable = open_scores[:, :1] / penalty(beam.limits.astype(jnp.float32))[:, None]
        last = (beam.now + 1 >= beam.limits)[:, None]
        finished = last | (ended_scores[:, -1:] > NEG_INF) | (ended_scores[:, nth] >= attainable)
        new = Beam(
            now=beam.now + 1,
            cache=cache,
            inputs=beam.inputs,
            limits=beam.limits,
            open_scores=open_scores,
            open_pieces=open_pieces,
            ancestry=ancestry,
            ended_scores=ended_scores,
            ended_pieces=ended_pieces,
            finished=finished[:, 0],
        )
        return _freeze_finished(beam, new)

    beam = _start(cache, inputs, limits, stages[0].steps, beam_size)
    beam = _search(advance, beam, stages)

    # the best that ended, then those truncated
    ended = (beam.ended_scores > NEG_INF).sum(axis=1, keepdims=True)
    slots = jnp.arange(hypotheses)[None]
    rows = jnp.where(slots < ended, slots, beam_size + slots - ended)
    truncated = beam.open_scores / penalty(limits.astype(jnp.float32))[:, None]
    scores = jnp.concatenate([beam.ended_scores, truncated], axis=1)
    pieces = jnp.concatenate([beam.ended_pieces, beam.open_pieces], axis=1)
    return _take(pieces, rows), jnp.take_along_axis(scores, rows, axis=1)


def _start(cache: Any, inputs: Any, limits: Int[Array, "B"], steps: Dim, beam_size: int) -> Beam:
    """The beam with the empty hypothesis in the first slot and no hypotheses in the others."""
    shape = (limits.shape[0], beam_size)
    pieces = jnp.zeros((*shape, steps), jnp.int32)
    empty = jnp.full(shape, NEG_INF)
    return Beam(
        now=jnp.int32(0),
        cache=cache,
        inputs=inputs,
        limits=limits,
        open_scores=empty.at[:, 0].set(0.0),
        open_pieces=pieces,
        ancestry=pieces,
        ended_scores=empty,
        ended_pieces=pieces,
        finished=limits <= 0,
    )


def _search(advance: Callable[[Beam], Beam], beam: Beam, stages: Sequence[Stage]) -> Beam:
    """The beam after all stages; of the `RESULTS` alone if their numbers of rows differ."""
    # the first stage
    stage, *later = stages
    rows = beam.finished.shape[0]

    def unfinished(beam: Beam) -> Bool[Array, ""]:
        return (beam.now < stage.steps) & ((~beam.finished).sum() > stage.remaining)

    beam = jax.lax.while_loop(unfinished, advance, _extend(beam, stage.steps))
    if not later:
        return beam
    if later[0].rows == rows:
        return _search(advance, beam, later)

    # the later ones for groups of unfinished sentences
    def finish(results: dict[str, Array]) -> dict[str, Array]:
        """The results after the search of a group of unfinished sentences."""
        unfinished_first = jnp.argsort(results["finished"], stable=True)
        chosen = unfinished_first[jnp.arange(later[0].rows)]
        group = jax.tree.map(lambda a: a if a.ndim == 0 else a[chosen], beam)
        group = dataclasses.replace(group, finished=results["finished"][chosen])
        changed = jnp.where(group.finished, rows, chosen)  # no row for the others
        group = _search(advance, group, later)
        return {
            name: results[name].at[changed].set(getattr(group, name), mode="drop")
            for name in RESULTS
        }

    # until no sentence is unfinished
    ended = _extend(dataclasses.replace(beam, cache=()), stages[-1].steps)
    results = {name: getattr(ended, name) for name in RESULTS}
    results = jax.lax.while_loop(lambda now: ~now["finished"].all(), finish, results)
    return dataclasses.replace(ended, **results)


def _extend(beam: Beam, steps: Dim) -> Beam:
    """The beam with a capacity of `steps` positions."""
    more = ((0, 0), (0, 0), (0, steps - beam.ancestry.shape[2]))

    def grows(node: Any) -> bool:
        return hasattr(node, "extended")

    return dataclasses.replace(
        beam,
        cache=jax.tree.map(lambda node: node.extended(steps), beam.cache, is_leaf=grows),
        open_pieces=jnp.pad(beam.open_pieces, more),
        ancestry=jnp.pad(beam.ancestry, more),
        ended_pieces=jnp.pad(beam.ended_pieces, more),
    )


def _decoder_step(step: Step, beam: Beam) -> tuple[Array, Any, Array]:
    """Runs the decoder at one position, where the ancestry of each hypothesis is its own slot."""
    # the (position, hypothesis) pairs that each hypothesis continues
    sentences, beam_size, steps = beam.ancestry.shape
    slots = jnp.arange(beam_size)
    own_slots = jnp.broadcast_to(slots[None, :], (sentences, beam_size))
    ancestry = _append(beam.ancestry, beam.now, own_slots)
    past = (jnp.arange(steps) <= beam.now)[None, None, :, None]
    allowed = (ancestry[..., None] == slots[None, None, None]) & past
    allowed = allowed.reshape(sentences, beam_size, steps * beam_size)

    # the step
    previous = jax.lax.dynamic_index_in_dim(
        beam.open_pieces, jnp.maximum(beam.now - 1, 0), axis=2, keepdims=False
    )
    logits, cache = step(beam.cache, beam.inputs, previous, beam.now, allowed)
    return logits, cache, ancestry


def _candidates(
    open_scores: Float[Array, "B k"], logits: Float[Array, "B k V"], count: int
) -> tuple[Float[Array, "B c"], Int[Array, "B c"], Int[Array, "B c"]]:
    """The best continuations: scores, parent hypotheses, and pieces.

    The logits are read twice, for the maxima of groups of pieces and for the normaliser; only the
    groups with the largest maxima are searched, in which all of the best continuations are.
    """
    # groups of pieces, the last padded
    sentences, beam_size, pieces = logits.shape
    group = 64
    logits = logits.at[..., PAD].set(NEG_INF)
    padding = ((0, 0), (0, 0), (0, -pieces % group))
    logits = jnp.pad(logits, padding, constant_values=NEG_INF)
    grouped = logits.reshape(sentences, beam_size, -1, group)

    # their maxima, and the normaliser
    maxima = grouped.max(axis=3)
    peak = maxima.max(axis=2)
    total = jnp.exp(logits - peak[..., None]).sum(axis=2)
    log_total = jnp.log(total)

    def scores_of(logits: Float[Array, "B n m"], parents: Int[Array, "B n"]) -> Array:
        terms = (jnp.take_along_axis(x, parents, axis=1) for x in (peak, log_total, open_scores))
        peaks, log_totals, before = (term[..., None] for term in terms)
        return (logits - peaks - log_totals + before).reshape(sentences, -1)

    # the groups with the largest maxima
    every = jnp.broadcast_to(jnp.arange(beam_size), (sentences, beam_size))
    searched = min(count, maxima[0].size)
    _, groups = jax.lax.top_k(scores_of(maxima, every), searched)
    groups = jnp.sort(groups, axis=1)

    # the best pieces in them
    members = _take(grouped.reshape(sentences, -1, group), groups)
    scores, at = jax.lax.top_k(scores_of(members, groups // maxima.shape[2]), count)
    groups = jnp.take_along_axis(groups, at // group, axis=1)
    parents, groups = jnp.divmod(groups, maxima.shape[2])
    return scores, parents, groups * group + at % group


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
    """`new` for unfinished sentences, `old` for finished ones."""

    def kept(old_field: Array, new_field: Array) -> Array:
        finished = old.finished.reshape(-1, *[1] * (old_field.ndim - 1))
        return jnp.where(finished, old_field, new_field)

    names = (*RESULTS, "ancestry")
    fields = {name: kept(getattr(old, name), getattr(new, name)) for name in names}
    return dataclasses.replace(new, **fields)
