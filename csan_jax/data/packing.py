"""Sequence packing: several examples in one row of a fixed width.

Templates of rows, which combine lengths, are computed once from the histogram of lengths
("histogram packing" of Krell et al. 2021, "Efficient Sequence Packing without
Cross-contamination", section 3.1, for several columns at once). Each epoch then assigns examples
of the right lengths at random.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from common_jax.data.batches import Batch, Batches
from common_jax.data.epoch_plan import Plan, PlannedBatch, PlannedEpoch, epoch_random, running

_TAIL = 4  # the rest of a row, in mean lengths, from which the best two examples are searched
_WEIGHT_POWER = 8  # exponent of a column's weight, in the column's share of remaining tokens


class Packing(NamedTuple):
    """Templates of rows for all examples.

    Attributes:
      widths: [c] of a row's columns, in positions.
      kinds: [k, c] the distinct lengths of the examples.
      members: [m] the templates end to end: the kind of each example of the row.
      sizes: [t] the number of members of each template.
      repeats: [t] the number of rows made from each template.
    """

    widths: Int[np.ndarray, "c"]
    kinds: Int[np.ndarray, "k c"]
    members: Int[np.ndarray, "m"]
    sizes: Int[np.ndarray, "t"]
    repeats: Int[np.ndarray, "t"]


def pack(lengths: Int[np.ndarray, "n c"], widths: Sequence[int]) -> Packing:
    """Packs examples of c columns into rows of the given widths, with little padding.

    Greedy, one template at a time: the largest remaining example; then random ones, in proportion
    to the remaining lengths, so that the rest stays a fair sample; and at the end of the row the
    pairs that fill it best. The template is repeated while its examples last. Columns with more
    remaining tokens weigh more, as they determine the number of rows. Deterministic. Time and
    memory grow with the product of the columns' longest lengths: for one or two columns.

    Raises:
      ValueError: for no examples, or one wider than a row.
    """
    lengths = np.asarray(lengths)
    if 0 in lengths.shape or len(widths) != lengths.shape[1]:
        raise ValueError(f"pack: {lengths.shape} lengths into widths {list(widths)}")
    grid = lengths.max(0) + 1
    if (grid > np.asarray(widths) + 1).any() or min(widths) < 1:
        raise ValueError(f"pack: longest {lengths.max(0)}, over the widths {list(widths)}")

    # the histogram of the examples' lengths
    count = np.bincount(_cells(lengths, grid))
    cells = count.nonzero()[0]
    kinds = np.stack(np.unravel_index(cells, grid), axis=1)
    templates = _Templates(kinds, count[cells], np.array(widths))

    # templates of rows, until no example remains
    members = []
    repeats = []
    while templates.counts.any():
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
    """The lengths of c columns as one index each."""
    return np.ravel_multi_index(tuple(lengths.T), tuple(grid))


class _Templates:
    """Builds one template after another from the remaining examples."""

    def __init__(self, kinds: np.ndarray, counts: np.ndarray, widths: np.ndarray):
        self.counts = counts
        self._widths = widths
        self._kinds = np.maximum(kinds, 1)  # else a row could hold infinitely many empty examples
        self._grid = self._kinds.max(0) + 1
        self._mean = counts @ self._kinds / counts.sum()
        self._random = np.random.Generator(np.random.PCG64(0))

    def take(self) -> tuple[Int[np.ndarray, "size"], int]:
        """The kinds in one row, and the number of such rows; reduces `counts` by them."""
        available = self.counts.nonzero()[0]
        row = _Row(self._kinds[available], self.counts[available], self._widths)
        volume = self._volume(row)
        sampled = self._draw(row.counts)

        # the largest example, then random ones up to the tail of the row
        row.add(int(volume.argmax()))
        for index in sampled:
            if (row.room <= _TAIL * self._mean).all():
                break
            if row.counts[index] and (row.kinds[index] <= row.room).all():
                row.add(index)

        # the tail: the pairs that fill it best, until no example fits
        best = self._best(row.kinds, volume)
        while len(fits := row.fits()):
            rest = np.minimum(row.room - row.kinds[fits], self._grid - 1)
            volumes = volume[fits] + best[tuple(rest.T)]
            fits = fits[volumes == volumes.max()]
            row.add(int(fits[volume[fits].argmax()]))  # smaller ones fit into other rows too

        # the template is repeated while its examples last
        kinds, used = np.unique(available[row.members], return_counts=True)
        times = int((self.counts[kinds] // used).min())
        self.counts[kinds] -= times * used
        return available[row.members], times

    def _volume(self, row: "_Row") -> Int[np.ndarray, "k"]:
        """The weighted tokens of each kind; integers, which are the same on every platform."""
        tokens = (row.counts @ row.kinds / self._widths).tolist()
        weights = [round(64 * (n / max(tokens)) ** _WEIGHT_POWER) for n in tokens]
        return row.kinds @ np.array(weights)

    def _draw(self, counts: np.ndarray) -> list[int]:
        """Random kinds, in proportion to their counts; more than a row holds on average."""
        ends = np.cumsum(counts)
        draws = int(2 * (self._widths / self._mean).max()) + 1
        positions = self._random.integers(ends[-1], size=draws)
        return np.searchsorted(ends, positions, "right").tolist()

    def _best(self, kinds: np.ndarray, volume: np.ndarray) -> np.ndarray:
        """For all widths up to the longest lengths, the volume of the largest kind that fits."""
        best = np.zeros(self._grid, np.int64)
        best[tuple(kinds.T)] = volume
        return running(np.maximum, best)


class _Row:
    """A row that is being filled, with the remaining counts of each kind."""

    def __init__(self, kinds: np.ndarray, counts: np.ndarray, widths: np.ndarray):
        self.kinds = kinds
        self.counts = counts
        self.room = widths.copy()
        self.members: list[int] = []

    def add(self, kind: int) -> None:
        self.members.append(kind)
        self.counts[kind] -= 1
        self.room -= self.kinds[kind]

    def fits(self) -> Int[np.ndarray, "f"]:
        """The remaining kinds that fit into the row."""
        columns = zip(self.kinds.T, self.room, strict=True)
        return np.logical_and.reduce([self.counts > 0, *(n <= w for n, w in columns)]).nonzero()[0]


class PackedPlan(Plan):
    """Examples packed into rows of one shape, shuffled each epoch.

    An epoch is a function of (seed, epoch): every example once, and every batch full except one.
    The rows of a template get other examples, and other neighbours, each time.
    """

    def __init__(
        self, lengths: Int[np.ndarray, "n c"], packing: Packing, batch_tokens: int, seed: int = 0
    ):
        """
        Args:
          packing: `pack` of the same `lengths`.
          batch_tokens: a batch has max(1, batch_tokens // widest column) rows.
          seed: of the order.

        Raises:
          ValueError: if the packing is of other lengths.
        """
        lengths = np.asarray(lengths)
        self.shapes = packing.widths[None]
        self.rows = np.maximum(1, batch_tokens // self.shapes.max(1))
        self._seed = seed
        self._kinds = packing.kinds
        self._sizes = packing.sizes
        self._kind = _kind_ids(lengths, packing)
        by_kind = np.argsort(self._kind, kind="stable")
        self._by_kind = np.split(by_kind, np.cumsum(np.bincount(self._kind))[:-1])
        self._members = packing.members.astype(self._kind.dtype)
        self._templates = np.repeat(np.arange(len(packing.repeats)), packing.repeats)
        self.batches = -(-len(self._templates) // int(self.rows[0]))

    def lengths(self, examples: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n c"]:
        """The tokens of some examples in each column."""
        return self._kinds[self._kind[examples]]

    def epoch(self, epoch: int) -> Sequence[PlannedBatch]:
        # the rows in random order, and the kinds of their examples
        random = epoch_random(self._seed, epoch)
        size = int(self.rows[0])
        rows = random.permutation(self._templates)
        sizes = self._sizes[rows]
        starts = (np.cumsum(self._sizes) - self._sizes)[rows]
        ends = np.cumsum(sizes)
        kinds = self._members[np.arange(ends[-1]) + np.repeat(starts - (ends - sizes), sizes)]

        # each place in a row gets a random example of its kind
        examples = np.empty(len(kinds), np.int64)
        examples[np.argsort(kinds, kind="stable")] = np.concatenate(
            [random.permutation(same_kind) for same_kind in self._by_kind]
        )

        # successive rows form a batch; the batches come in random order
        return PlannedEpoch(
            examples,
            bounds=np.append(0, ends)[[*range(0, len(rows), size), len(rows)]],
            shapes=np.zeros(self.batches, int),
            order=random.permutation(self.batches),
            rows=np.repeat(np.arange(len(rows)) % size, sizes),
        )


def _kind_ids(lengths: np.ndarray, packing: Packing) -> np.ndarray:
    """The kind of each example, in the smallest integer type, which sorts fastest."""
    grid = np.maximum(lengths.max(0), packing.kinds.max(0)) + 1
    unknown = len(packing.kinds)
    number = np.full(np.prod(grid), unknown, np.min_scalar_type(unknown))
    number[_cells(packing.kinds, grid)] = np.arange(unknown)
    kind_ids = number[_cells(lengths, grid)]
    members = np.bincount(packing.members, np.repeat(packing.repeats, packing.sizes))
    if not np.array_equal(np.bincount(kind_ids, minlength=len(members)), members):
        raise ValueError("this packing is of other lengths")
    return kind_ids


class PackedBatches(Batches):
    """Batches of a `PackedPlan`, whose rows have several concatenated examples.

    "index" has the first example of a row, and for each column there is an int32 [B, width] array
    "COLUMN_segments": 1 for tokens of the row's first example, 2 for the second and so on, the same
    in all columns, and 0 for padding.
    """

    plan: PackedPlan

    def read(self, planned: PlannedBatch) -> Batch:
        batch = {"index": self.index(planned)}
        rows = self._selected(int(self.plan.rows[planned.shape]))
        selected = np.isin(planned.rows, rows)
        examples = planned.examples[selected]
        example_rows = np.searchsorted(rows, planned.rows[selected])
        widths = self.plan.shapes[planned.shape]
        lengths = self.plan.lengths(examples).T
        for column, width, length in zip(self.columns, widths.tolist(), lengths, strict=True):
            tokens = self.corpus.gather(examples, column, width)
            batch |= _packed(column, tokens, length, example_rows, len(batch["index"]))
        return batch


def _packed(
    column: str, tokens: np.ndarray, lengths: np.ndarray, example_rows: np.ndarray, rows: int
) -> Batch:
    """Concatenates the examples `tokens` [n, width] in their rows."""
    columns = np.arange(tokens.shape[1])
    filled = columns < np.bincount(example_rows, lengths, rows)[:, None]
    packed, segments = np.zeros((2, *filled.shape), np.int32)
    packed[filled] = tokens[columns < lengths[:, None]]
    number = np.arange(len(example_rows)) - np.searchsorted(example_rows, example_rows) + 1
    segments[filled] = np.repeat(number, lengths)
    return {column: packed, f"{column}_segments": segments}
