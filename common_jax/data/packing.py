"""Sequence packing: several examples side by side in one row of a fixed width.

Which lengths share a row is found once, from the histogram of lengths, as templates of rows
("histogram packing" of Krell et al. 2021, "Efficient Sequence Packing without
Cross-contamination", section 3.1, for several columns at once). An epoch then only draws which
example of each length takes which place.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from common_jax.data.plan import Plan, PlannedBatch, PlannedEpoch, epoch_random

# Mean lengths that may be left of a row when the best two examples for the rest are looked for.
_CLOSE = 4
# How sharply tokens of a column that fills up less count for less.
_STEEP = 8


class Packing(NamedTuple):
    """Templates of rows that together hold every example.

    Attributes:
      widths: [c] of a row's columns, in positions.
      kinds: [k, c] the distinct lengths of the examples.
      members: [m] the templates end to end: the kind of each example of the row.
      sizes: [t] how many members each template has.
      repeats: [t] how many rows are made from each template.
    """

    widths: Int[np.ndarray, "c"]
    kinds: Int[np.ndarray, "k c"]
    members: Int[np.ndarray, "m"]
    sizes: Int[np.ndarray, "t"]
    repeats: Int[np.ndarray, "t"]


def pack(lengths: Int[np.ndarray, "n c"], widths: Sequence[int]) -> Packing:
    """Packs examples of c columns into rows of the given widths, with few positions to spare.

    Greedy, a template at a time: the largest example left; others drawn at random, as common as
    their lengths are among those left, so that what is left stays a fair sample; and towards the
    end of the row, the largest that another one goes with best. The template is repeated as often
    as its examples last. Tokens of the column with most of them left count most, for that column
    decides how many rows there must be. Deterministic. Time and memory grow with the product of
    the columns' longest lengths: made for one or two columns.

    Raises:
      ValueError: no examples, or one that is wider than a row.
    """
    lengths = np.asarray(lengths)
    if 0 in lengths.shape or len(widths) != lengths.shape[1]:
        raise ValueError(f"pack: {lengths.shape} lengths into widths {list(widths)}")
    grid = lengths.max(0) + 1
    if (grid > np.asarray(widths) + 1).any() or min(widths) < 1:
        raise ValueError(f"pack: longest {lengths.max(0)}, over the widths {list(widths)}")
    count = np.bincount(_cells(lengths, grid))
    cells = count.nonzero()[0]
    kinds = np.stack(np.unravel_index(cells, grid), axis=1)
    templates = _Templates(kinds, count[cells], np.array(widths))
    members, repeats = [], []
    while templates.left.any():
        row, times = templates.take()
        members.append(row)
        repeats.append(times)
    return Packing(
        np.array(widths),
        kinds,
        np.concatenate(members),
        np.array([len(row) for row in members]),
        np.array(repeats),
    )


def _cells(lengths: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The lengths of c columns as one number each."""
    return np.ravel_multi_index(tuple(lengths.T), tuple(grid))


class _Templates:
    """Takes one template after another from the examples that are left."""

    def __init__(self, kinds: np.ndarray, left: np.ndarray, widths: np.ndarray):
        self.left, self._widths = left, widths
        self._kinds = np.maximum(kinds, 1)  # so that no row holds examples without end
        self._grid = self._kinds.max(0) + 1
        self._mean = left @ self._kinds / left.sum()
        self._random = np.random.Generator(np.random.PCG64(0))

    def take(self) -> tuple[Int[np.ndarray, "size"], int]:
        """The kinds in one row, and how many such rows were taken from `left`."""
        here = self.left.nonzero()[0]
        row = _Row(self._kinds[here], self.left[here], self._widths)
        volume, drawn = self._volume(row), self._draw(row.left)
        row.add(int(volume.argmax()))
        for kind in drawn:
            if (row.room <= _CLOSE * self._mean).all():
                break
            if row.left[kind] and (row.kinds[kind] <= row.room).all():
                row.add(kind)
        best = self._best(row.kinds, volume)
        while len(fits := row.fits()):
            rest = np.minimum(row.room - row.kinds[fits], self._grid - 1)
            together = volume[fits] + best[tuple(rest.T)]
            fits = fits[together == together.max()]
            row.add(int(fits[volume[fits].argmax()]))  # the smaller ones fit elsewhere too
        kinds, used = np.unique(here[row.members], return_counts=True)
        times = int((self.left[kinds] // used).min())
        self.left[kinds] -= times * used
        return here[row.members], times

    def _volume(self, row: "_Row") -> Int[np.ndarray, "k"]:
        """The weighted tokens of each kind; whole numbers, so that they are the same anywhere."""
        tokens = (row.left @ row.kinds / self._widths).tolist()
        weights = [round(64 * (n / max(tokens)) ** _STEEP) for n in tokens]
        return row.kinds @ np.array(weights)

    def _draw(self, left: np.ndarray) -> list[int]:
        """More kinds than a row holds of average ones, each as likely as there are many left."""
        ends = np.cumsum(left)
        several = int(2 * (self._widths / self._mean).max()) + 1
        places = self._random.integers(ends[-1], size=several)
        return np.searchsorted(ends, places, "right").tolist()

    def _best(self, kinds: np.ndarray, volume: np.ndarray) -> np.ndarray:
        """For every room up to the longest lengths, the volume of the largest kind that fits."""
        best = np.zeros(self._grid, np.int64)
        best[tuple(kinds.T)] = volume
        for axis in range(best.ndim):
            best = np.maximum.accumulate(best, axis=axis)
        return best


class _Row:
    """A row that is being filled from kinds of which some are left."""

    def __init__(self, kinds: np.ndarray, left: np.ndarray, widths: np.ndarray):
        self.kinds, self.left, self.room = kinds, left, widths.copy()
        self.members: list[int] = []

    def add(self, kind: int) -> None:
        self.members.append(kind)
        self.left[kind] -= 1
        self.room -= self.kinds[kind]

    def fits(self) -> Int[np.ndarray, "f"]:
        """The kinds that are left and fit what room there is."""
        columns = zip(self.kinds.T, self.room, strict=True)
        return np.logical_and.reduce([self.left > 0, *(n <= w for n, w in columns)]).nonzero()[0]


class PackedPlan(Plan):
    """Examples packed into rows of one shape, shuffled anew each epoch.

    An epoch is a function of (seed, epoch) alone: every example once, every batch full of rows but
    the last one made. Each template's rows get other examples every time, and other neighbours.
    """

    def __init__(
        self, lengths: Int[np.ndarray, "n c"], packing: Packing, batch_tokens: int, seed: int = 0
    ):
        """Plans examples of `lengths` by the `packing` that `pack` made of the same lengths.

        Args:
          lengths: of each example's columns.
          packing: of `pack`.
          batch_tokens: a batch has max(1, batch_tokens // widest column) rows.
          seed: of the order.

        Raises:
          ValueError: if the packing is of other lengths.
        """
        lengths = np.asarray(lengths)
        self.shapes = packing.widths[None]
        self.rows = np.maximum(1, batch_tokens // self.shapes.max(1))
        self._seed = seed
        self._kinds, self._sizes = packing.kinds, packing.sizes
        self._kind = _numbers(lengths, packing)
        by_kind = np.argsort(self._kind, kind="stable")
        self._alike = np.split(by_kind, np.cumsum(np.bincount(self._kind))[:-1])
        self._members = packing.members.astype(self._kind.dtype)
        self._templates = np.repeat(np.arange(len(packing.repeats)), packing.repeats)
        self.batches = -(-len(self._templates) // int(self.rows[0]))
        positions = self.batches * int(self.rows[0]) * int(packing.widths.sum())
        self.padding_fraction = 1 - int(lengths.sum()) / positions

    def lengths(self, examples: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n c"]:
        """The tokens of some examples in each column."""
        return self._kinds[self._kind[examples]]

    def epoch(self, epoch: int) -> Sequence[PlannedBatch]:
        """The batches of an epoch, in their order."""
        random, size = epoch_random(self._seed, epoch), int(self.rows[0])
        rows = random.permutation(self._templates)
        sizes = self._sizes[rows]
        starts = (np.cumsum(self._sizes) - self._sizes)[rows]
        ends = np.cumsum(sizes)
        wanted = self._members[np.arange(ends[-1]) + np.repeat(starts - (ends - sizes), sizes)]
        examples = np.empty(len(wanted), np.int64)
        examples[np.argsort(wanted, kind="stable")] = np.concatenate(
            [random.permutation(alike) for alike in self._alike]
        )
        return PlannedEpoch(
            examples,
            bounds=np.append(0, ends)[[*range(0, len(rows), size), len(rows)]],
            shapes=np.zeros(self.batches, int),
            order=random.permutation(self.batches),
            places=np.repeat(np.arange(len(rows)) % size, sizes),
        )


def _numbers(lengths: np.ndarray, packing: Packing) -> np.ndarray:
    """The number of each example's kind, in as few bytes as will do: they are sorted faster."""
    grid = np.maximum(lengths.max(0), packing.kinds.max(0)) + 1
    unknown = len(packing.kinds)
    number = np.full(np.prod(grid), unknown, np.min_scalar_type(unknown))
    number[_cells(packing.kinds, grid)] = np.arange(unknown)
    kind = number[_cells(lengths, grid)]
    places = np.bincount(packing.members, np.repeat(packing.repeats, packing.sizes))
    if not np.array_equal(np.bincount(kind, minlength=len(places)), places):
        raise ValueError("this packing is of other lengths")
    return kind
