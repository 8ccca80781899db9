"""The epoch plan: the examples of each batch, a pure function of seed and epoch.

A batch holds examples of similar lengths, padded to one of a few shapes, as every shape is
compiled. `choose_shapes` computes the shapes with least padding; `BucketPlan` fills them with one
example a row. `csan_jax.data.packing` puts several examples into a row.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

# Largest cost of `choose_shapes`: cells of its table times distinct sums of widths.
_BUDGET = 4_000_000


@dataclasses.dataclass(frozen=True)
class PlannedBatch:
    """One batch: the index of its shape, its examples, and the row of each, ascending."""

    shape: int
    examples: Int[np.ndarray, "n"]
    rows: Int[np.ndarray, "n"]


@dataclasses.dataclass(frozen=True)
class PlannedEpoch(Sequence[PlannedBatch]):
    """An epoch as arrays; batches are created upon access.

    Attributes:
      examples: grouped by batch.
      bounds: the start of each batch in `examples`, and the end of the last one.
      shapes: each batch's shape.
      order: the order of the batches.
      rows: each example's row in its batch; None if each has a row of its own.
    """

    examples: Int[np.ndarray, "n"]
    bounds: Int[np.ndarray, "batches_and_1"]
    shapes: Int[np.ndarray, "batches"]
    order: Int[np.ndarray, "batches"]
    rows: Int[np.ndarray, "n"] | None = None

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, at):
        batch = self.order[at]
        members = slice(*self.bounds[batch : batch + 2])
        examples = self.examples[members]
        rows = np.arange(len(examples)) if self.rows is None else self.rows[members]
        return PlannedBatch(int(self.shapes[batch]), examples, rows)


class Plan(abc.ABC):
    """Examples in batches of few shapes, every example once an epoch.

    Attributes:
      shapes: [k, c] the widths of each shape's columns, in positions.
      rows: [k] the number of rows in a batch of each shape.
      batches: the number of batches in every epoch.
    """

    shapes: Int[np.ndarray, "k c"]
    rows: Int[np.ndarray, "k"]
    batches: int

    @abc.abstractmethod
    def epoch(self, epoch: int) -> Sequence[PlannedBatch]:
        """The batches of an epoch, in their order."""


def epoch_random(seed: int, epoch: int) -> np.random.Generator:
    """The random generator of an epoch's order, a function of seed and epoch."""
    entropy = np.random.SeedSequence([seed % 2**64, epoch])
    return np.random.Generator(np.random.PCG64(entropy))


def choose_shapes(lengths: Int[np.ndarray, "n c"], max_shapes: int) -> Int[np.ndarray, "k c"]:
    """At most `max_shapes` nested shapes (widths of the c columns) with the least padding.

    Nested: each shape is at least as wide as the one before in every column, and the last fits
    every example. An example is in the first shape that fits it. The choice is optimal among nested
    shapes, by dynamic programming over the histogram of lengths: with C(w) the number of examples
    that fit the shape w, and |w| the sum of its widths, the fewest positions of i shapes of which w
    is the last are F_i(w) = C(w) |w| + min over v <= w of (F_{i-1}(v) - C(v) |w|).
    Widths of very long columns are multiples of a step, which limits the time to about a second.

    Raises:
      ValueError: for no examples, or no shapes.
    """
    lengths = np.asarray(lengths)
    if 0 in lengths.shape or max_shapes < 1:
        raise ValueError(
            f"needs lengths and max_shapes of at least 1, not {lengths.shape} and {max_shapes}"
        )
    widths, count = _histogram(lengths)
    fit = running(np.add, count)
    width = sum(np.ix_(*widths), np.zeros(count.shape, np.int64))
    best = [fit * width]
    for _ in range(min(max_shapes, count.size) - 1):
        best.append(_add_shape(best[-1], fit, width))

    last: tuple[Any, ...] = tuple(n - 1 for n in count.shape)
    cells = [last]
    for smaller in best[-2::-1]:
        inside = tuple(slice(i + 1) for i in last)
        change = smaller[inside] - fit[inside] * width[last]
        if change.min() >= 0:  # a further shape would not save anything
            break
        last = np.unravel_index(change.argmin(), change.shape)
        cells.append(last)
    return np.array([[w[i] for w, i in zip(widths, c, strict=True)] for c in cells[::-1]], np.int64)


def _histogram(lengths: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The possible widths of each column, and the number of examples for each combination."""
    columns = lengths.shape[1]
    most = int((_BUDGET / columns) ** (1 / (columns + 1)))
    widths = []
    cells = []
    for column in lengths.T:
        longest = max(1, int(column.max()))
        step = -(-longest // most)
        rounded = np.clip(-(-column // step) * step, 1, longest)
        values, cell = np.unique(rounded, return_inverse=True)
        widths.append(values)
        cells.append(cell)
    grid = tuple(map(len, widths))
    count = np.bincount(np.ravel_multi_index(cells, grid), minlength=np.prod(grid))
    return widths, count.reshape(grid)


def _add_shape(best: np.ndarray, fit: np.ndarray, width: np.ndarray) -> np.ndarray:
    """F_i from F_{i-1}, both over the grid of widths."""
    result = fit * width  # no smaller shape
    for total in np.unique(width):
        same_total = width == total
        smaller = running(np.minimum, best - fit * total)
        result[same_total] += np.minimum(smaller[same_total], 0)
    return result


def running(operation: np.ufunc, table: np.ndarray) -> np.ndarray:
    """`operation` accumulated along every axis of a table: with np.add, sums of all prefixes."""
    for axis in range(table.ndim):
        table = operation.accumulate(table, axis=axis)
    return table


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Several corpora whose examples are drawn in fixed shares.

    An epoch has as many draws as there are examples. The examples of a corpus are drawn in random
    order without replacement until all have been drawn; each shape of a plan gets its share.

    Attributes:
      corpus: the corpus of each example, from 0.
      weights: of each corpus, above 0.
    """

    corpus: Int[np.ndarray, "n"]
    weights: Sequence[float]

    def draws(self, members: Sequence[Int[np.ndarray, "_"]]) -> Int[np.ndarray, "k c"]:
        """The number of draws from each shape and corpus, the same in every epoch.

        Args:
          members: the examples of each shape.
        """
        sizes = np.array(
            [np.bincount(self.corpus[m], minlength=len(self.weights)) for m in members]
        )
        shares = np.array(self.weights) / sum(self.weights)
        exact = sizes * (shares * sizes.sum() / sizes.sum(axis=0))
        # sums over the first shapes are rounded, so that each is within 1/2 of its exact value; a
        # shape with examples has a draw, or those would never be drawn
        draws = np.diff(np.rint(np.cumsum(exact, axis=0)), axis=0, prepend=0).astype(np.int64)
        return np.maximum(draws, sizes > 0)

    def members(
        self, members: Sequence[Int[np.ndarray, "_"]], seed: int, epoch: int
    ) -> list[Int[np.ndarray, "_"]]:
        """The examples of each shape that an epoch draws."""
        result = []
        for shape, (rows, counts) in enumerate(zip(members, self.draws(members), strict=True)):
            by_corpus = [rows[self.corpus[rows] == corpus] for corpus in range(len(self.weights))]
            drawn = [
                _cycled(corpus_rows, int(count), epoch, [seed % 2**64, shape, corpus])
                for corpus, (corpus_rows, count) in enumerate(zip(by_corpus, counts, strict=True))
            ]
            result.append(np.concatenate(drawn))
        return result


def _cycled(rows: np.ndarray, count: int, epoch: int, entropy: list[int]) -> np.ndarray:
    """The `count` draws of an epoch from `rows`, permuted anew for each pass over them."""
    if not count:
        return rows[:0]
    start = count * epoch
    passes = [
        np.random.default_rng([*entropy, number]).permutation(rows)
        for number in range(start // len(rows), (start + count - 1) // len(rows) + 1)
    ]
    at = start % len(rows)
    return np.concatenate(passes)[at : at + count]


class BucketPlan(Plan):
    """Examples in batches of few shapes, one a row, shuffled each epoch.

    An epoch is a function of (seed, epoch): every example once, or the draws of a mixture. Examples
    that fill no batch of their shape move up into the next shape that fits them, so that of nested
    shapes only the largest has a batch that is not full.
    """

    def __init__(
        self,
        lengths: Int[np.ndarray, "n c"],
        shapes: Int[np.ndarray, "k c"],
        batch_tokens: int,
        seed: int | None = 0,
        batch_size: int | None = None,
        mixture: Mixture | None = None,
    ):
        """
        Args:
          lengths: of each example's columns, in positions.
          shapes: of `choose_shapes`, or any others that fit every example.
          batch_tokens: a batch has max(1, batch_tokens // widest column) rows.
          seed: of the order; None for a constant order, sorted by length, for evaluation.
          batch_size: rows of every batch of any shape, instead of `batch_tokens`.
          mixture: draws examples from several corpora; needs a seed.

        Raises:
          ValueError: if an example fits no shape.
        """
        lengths = np.asarray(lengths)
        shapes = np.asarray(shapes)
        order = np.argsort(shapes.sum(1), kind="stable")
        self.shapes = shapes[order]
        by_tokens = np.maximum(1, batch_tokens // self.shapes.max(1))
        self.rows = by_tokens if batch_size is None else np.full_like(by_tokens, batch_size)
        self._seed = seed
        self._members = _members(lengths, self.shapes, in_order=seed is None)
        self._above = [_next_shape(self.shapes, i) for i in range(len(self.shapes))]
        self._mixture = mixture
        counts = np.array([len(rows) for rows in self._drawn(0)])
        self._moved_up, self._bounds, self._shapes = self._layout(counts)
        self.batches = len(self._shapes)

    def epoch(self, epoch: int) -> Sequence[PlannedBatch]:
        """The batches of an epoch, in their order."""
        members = self._members
        order = np.arange(self.batches)
        if self._seed is not None:
            random = epoch_random(self._seed, epoch)
            members = [random.permutation(rows) for rows in self._drawn(epoch)]
            order = random.permutation(self.batches)
        examples = np.concatenate(self._move_up(members))
        return PlannedEpoch(examples, self._bounds, self._shapes, order)

    def _drawn(self, epoch: int) -> list[np.ndarray]:
        """The examples of each shape in an epoch."""
        if self._mixture is None or self._seed is None:
            return self._members
        return self._mixture.members(self._members, self._seed, epoch)

    def _layout(self, counts: Int[np.ndarray, "k"]) -> tuple[list[int], np.ndarray, np.ndarray]:
        """The number of examples that move up from each shape; bounds and shapes of the batches."""
        moved = []
        for shape, (size, above) in enumerate(zip(self.rows, self._above, strict=True)):
            moved.append(0 if above is None else int(counts[shape] % size))
            counts[shape] -= moved[shape]
            if above is not None:
                counts[above] += moved[shape]
        batches = -(-counts // self.rows)
        shapes = np.repeat(np.arange(len(counts)), batches)
        number = np.arange(len(shapes)) - np.repeat(np.cumsum(batches) - batches, batches)
        starts = np.repeat(np.cumsum(counts) - counts, batches) + number * self.rows[shapes]
        return moved, np.append(starts, counts.sum()), shapes

    def _move_up(self, members: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Moves examples that fill no batch of their shape to the front of the shape above."""
        members = list(members)
        for shape, (moved, above) in enumerate(zip(self._moved_up, self._above, strict=True)):
            if above is not None and moved:
                members[shape], rest = np.split(members[shape], [-moved])
                members[above] = np.concatenate([rest, members[above]])
        return members


def _members(lengths: np.ndarray, shapes: np.ndarray, in_order: bool) -> list[np.ndarray]:
    """The examples of each shape: those that fit it but no earlier shape."""
    remaining = np.arange(len(lengths))
    members = []
    for shape in shapes:
        fits = np.logical_and.reduce(
            [n[remaining] <= w for n, w in zip(lengths.T, shape, strict=True)]
        )
        members.append(remaining[fits])
        remaining = remaining[~fits]
    if len(remaining):
        raise ValueError(f"example {remaining[0]} of lengths {lengths[remaining[0]]} fits no shape")
    if in_order:
        keys = lengths.max(1) if len(lengths) else np.zeros(0, int)
        members = [rows[np.argsort(keys[rows], kind="stable")] for rows in members]
    return members


def _next_shape(shapes: np.ndarray, shape: int) -> int | None:
    above = [i for i in range(shape + 1, len(shapes)) if (shapes[i] >= shapes[shape]).all()]
    return above[0] if above else None
