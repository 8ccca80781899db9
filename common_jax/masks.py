"""The attention-mask module that the three papers share.

A `Mask` says which keys a query may attend to, as structure and not as an array: the dense
attention expands it, the banded one slices it. Restrictions compose with `&`:

    mask = padding(valid, valid) & token_window(11) & head_window(3)

Legend of dims, here and in attention: B batch, T queries, S keys, D model, H heads, K head size of
queries and keys, V of values, N heads in an area. In the outputs of models V is the vocabulary.

Sources: token and head windows are CSAN's Equations 4-5 and 7-8 (M + 1 tokens, N + 1 heads);
`direction("alternate")` is its comparison system BI_DIRECT.
"""

import functools
from collections.abc import Callable
from typing import Literal, SupportsInt

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from common_jax.pytrees import pytree

Direction = Literal["both", "left", "right", "alternate"]
HeadEdge = Literal["truncate", "wrap", "clamp", "authors"]
Rule = Callable[[Int[Array, "T S"]], Bool[Array, "T S"]]
MASKED = -1e30  # score of a masked key; finite, so that the softmax of a masked row is not NaN


@pytree(static=("direction", "window", "rules", "heads", "head_edge"))
class Mask:
    """A conjunction of restrictions; `Mask()` restricts nothing. True means "may attend".

    Attributes:
      query_segments: [B, T], bool (valid or padding) or integer ids (0 is padding).
      key_segments: [B, S], likewise. Padded queries and keys are masked; if both sides have ids,
        queries attend to keys with equal ids only.
      direction: "left" keeps j <= i, "right" j >= i; "alternate" is "left" for even heads and
        "right" for odd ones.
      window: odd number of tokens centred at the query, truncated at the borders; or None.
      rules: further conditions on j - i; see `relative`.
      heads: odd number of adjacent heads whose keys and values a head attends to; 1 is its own.
      head_edge: policy for heads beyond the first and the last; see `head_table`.
    """

    query_segments: Bool[Array, "B T"] | Int[Array, "B T"] | None = None
    key_segments: Bool[Array, "B S"] | Int[Array, "B S"] | None = None
    direction: Direction = "both"
    window: int | None = None
    rules: tuple[Rule, ...] = ()
    heads: int = 1
    head_edge: HeadEdge = "truncate"

    def __and__(self, other: "Mask") -> "Mask":
        """The restrictions of both.

        Raises:
          ValueError: for two segmentations, opposite directions, or two different head areas.
        """
        # what cannot differ
        area = {(m.heads, m.head_edge) for m in (self, other) if m.heads != 1} or {(1, "truncate")}
        directions = {m.direction for m in (self, other)} - {"both"} or {"both"}
        if len(area) > 1 or len(directions) > 1:
            raise ValueError(
                f"masks do not combine: head areas {sorted(area)}, directions {sorted(directions)}"
            )
        ((heads, head_edge),) = area
        (direction,) = directions

        # what narrows
        windows = [w for w in (self.window, other.window) if w is not None]
        return Mask(
            query_segments=_combined_segments(self.query_segments, other.query_segments),
            key_segments=_combined_segments(self.key_segments, other.key_segments),
            direction=direction,
            window=min(windows, default=None),
            rules=tuple(dict.fromkeys((*self.rules, *other.rules))),
            heads=heads,
            head_edge=head_edge,
        )

    def allowed(
        self, queries: SupportsInt, keys: SupportsInt, heads: int
    ) -> Bool[Array, "b h T S"]:
        """The restrictions on tokens as an array; b is 1 or B, h is 1 or `heads`.

        It does not contain the head area, which is `head_table`'s.
        """
        tokens = segments_meet(self.query_segments, self.key_segments)
        return self.band(jnp.arange(queries), jnp.arange(keys), heads) & tokens[:, None]

    def band(
        self, query_positions: Int[Array, "*t"], key_positions: Int[Array, "*s"], heads: int
    ) -> Bool[Array, "..."]:
        """The part that depends on positions only, [1, h, T, S], for any slices of positions."""
        offset = key_positions[None, :] - query_positions[:, None]

        # window and rules
        inside = jnp.ones_like(offset, bool)
        if self.window is not None:
            inside = jnp.abs(offset) <= self.window // 2
        for rule in self.rules:
            inside &= rule(offset)

        # direction, which may depend on the head
        to_left = offset <= 0
        to_right = offset >= 0
        if self.direction == "alternate":
            even = (jnp.arange(heads) % 2 == 0)[:, None, None]
            return (inside[None] & jnp.where(even, to_left[None], to_right[None]))[None]
        if self.direction != "both":
            inside &= to_left if self.direction == "left" else to_right
        return inside[None, None]

    def query_positions(self, length: SupportsInt) -> Int[Array, "b T"]:
        """Each query's position in its segment, from 0; b is 1 if every row is one segment."""
        return positions(self.query_segments, length)

    def key_positions(self, length: SupportsInt) -> Int[Array, "b S"]:
        """As `query_positions`, for keys."""
        return positions(self.key_segments, length)

    def query_lengths(self, length: SupportsInt) -> Int[Array, "b T"]:
        """The length of each query's segment; 0 for padding."""
        return lengths(self.query_segments, length)

    def key_lengths(self, length: SupportsInt) -> Int[Array, "b S"]:
        """As `query_lengths`, for keys."""
        return lengths(self.key_segments, length)


def padding(
    key_valid: Bool[Array, "B S"] | None, query_valid: Bool[Array, "B T"] | None = None
) -> Mask:
    """Masks padded keys (and queries, if given)."""
    return Mask(query_segments=query_valid, key_segments=key_valid)


def segments(
    query_ids: Bool[Array, "B T"] | Int[Array, "B T"],
    key_ids: Bool[Array, "B S"] | Int[Array, "B S"],
) -> Mask:
    """Several sequences in one row: attention between equal ids; id 0 is padding."""
    return Mask(query_segments=query_ids, key_segments=key_ids)


def direction(kind: Direction) -> Mask:
    """Attention to the left, to the right, or alternating by head, own position included."""
    return Mask(direction=kind)


def causal() -> Mask:
    """Attention to the query's own position and those before it."""
    return direction("left")


def token_window(size: int) -> Mask:
    """CSAN Eq. 4-5: the `size` = M + 1 tokens centred at the query, truncated at the borders."""
    if size < 1 or size % 2 == 0:
        raise ValueError(f"a token window is an odd number of tokens, not {size}")
    return Mask(window=size)


def relative(rule: Rule) -> Mask:
    """Attention where `rule` of the offsets key_position - query_position [T, S] is true.

    Args:
      rule: a module-level function or a method of a frozen dataclass: as part of the compilation
        cache key it must be hashable, and equal for equal masks.
    """
    return Mask(rules=(rule,))


def head_window(size: int, edge: HeadEdge = "truncate") -> Mask:
    """CSAN Eq. 7-8: the `size` = N + 1 heads centred at the query's own."""
    if size < 1 or size % 2 == 0:
        raise ValueError(f"a head window is an odd number of heads, not {size}")
    return Mask(heads=size, head_edge=edge)


def head_table(heads: int, size: int, edge: HeadEdge) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The heads to whose keys and values each head attends: (key_heads, value_heads, valid) [H, N].

    Beyond the edge, "truncate" masks (Eq. 7 read literally), "wrap" continues at the other end,
    "clamp" repeats the outermost head; "authors" is the released code, which wraps keys and clamps
    values.

    Raises:
      ValueError: for an area larger than `heads` + 1 (the paper's N <= H), or, wrapping, larger
        than `heads` (a head would count twice).
    """
    if size > heads + 1 or (edge in ("wrap", "authors") and size > heads):
        raise ValueError(f"a window of {size} heads does not fit {heads} heads with edge {edge!r}")
    heads_in_window = np.arange(heads)[:, None] + np.arange(size)[None, :] - size // 2

    # policies for those beyond the edge
    wrapped = heads_in_window % heads
    clamped = heads_in_window.clip(0, heads - 1)
    key_heads = wrapped if edge in ("wrap", "authors") else clamped
    value_heads = wrapped if edge == "wrap" else clamped
    inside = heads_in_window == clamped
    return key_heads, value_heads, inside if edge == "truncate" else np.ones_like(inside)


def valid(segments: Array) -> Bool[Array, "..."]:
    """True at positions that are not padding."""
    return segments if segments.dtype == bool else segments != 0


def positions(
    segments: Bool[Array, "B T"] | Int[Array, "B T"] | None, length: SupportsInt
) -> Int[Array, "b T"]:
    """Each position in its segment, from 0, [B, T]; [1, T] without ids: a row is one segment.

    Args:
      segments: of a mask. A segment is a run of equal ids; padding is at the end.
      length: T.
    """
    in_row = jnp.arange(length, dtype=jnp.int32)[None]
    if segments is None or not _has_ids(segments):
        return in_row
    begins = segments != jnp.pad(segments[:, :-1], ((0, 0), (1, 0)))
    return in_row - jax.lax.cummax(jnp.where(begins, in_row, 0), axis=1)


def lengths(
    segments: Bool[Array, "B T"] | Int[Array, "B T"] | None, length: SupportsInt
) -> Int[Array, "b T"]:
    """The length of each position's segment, [B, T]; 0 for padding. Without segments T, [1, T].

    Args: as `positions`.
    """
    in_row = jnp.arange(length, dtype=jnp.int32)[None]
    if segments is None:
        return jnp.zeros_like(in_row) + length
    if not _has_ids(segments):
        count = segments.sum(axis=1, keepdims=True, dtype=jnp.int32)
        return jnp.where(segments, count, 0)

    # from a segment's first position to the end of its run
    ends = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (0, 1)), constant_values=True)
    largest = jnp.iinfo(jnp.int32).max
    stop = jax.lax.cummin(jnp.where(ends, in_row + 1, largest), axis=1, reverse=True)
    first = in_row - positions(segments, length)
    return jnp.where(valid(segments), stop - first, 0)


def segments_meet(
    query: Bool[Array, "... T"] | Int[Array, "... T"] | None,
    key: Bool[Array, "... S"] | Int[Array, "... S"] | None,
) -> Bool[Array, "... #T #S"]:
    """The mask of padding and segments; [1, 1, 1] without either."""
    conditions = []
    if key is not None:
        conditions.append(valid(key)[..., None, :])
    if query is not None:
        conditions.append(valid(query)[..., :, None])
    if query is not None and key is not None and _has_ids(query) and _has_ids(key):
        conditions.append(query[..., :, None] == key[..., None, :])
    return functools.reduce(jnp.logical_and, conditions or [jnp.ones((1, 1, 1), bool)])


def masked_softmax(
    scores: Float[Array, "... T S"], allowed: Bool[Array, "... #T #S"], axis: int = -1
) -> Float[Array, "... T S"]:
    """Softmax over the allowed entries of an axis; without any, zeros in value and gradient."""
    weights = jax.nn.softmax(jnp.where(allowed, scores, MASKED), axis=axis)
    return jnp.where(allowed, weights, 0)


def _has_ids(segments: Array) -> bool:
    return segments.dtype != bool


def _combined_segments(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    if _has_ids(a) and _has_ids(b):
        raise ValueError("masks do not combine: two segmentations")
    ids, keep = (a, b) if _has_ids(a) else (b, a)
    return jnp.where(keep, ids, jnp.zeros_like(ids))
