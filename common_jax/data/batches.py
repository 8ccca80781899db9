"""Batches of fixed shapes from a prepared corpus and a plan, and the endless stream of them."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from common_jax.data.corpus import Corpus
from common_jax.data.packing import PackedPlan
from common_jax.data.plan import Plan, PlannedBatch

Batch = dict[str, Shaped[Any, "..."]]  # arrays of NumPy, or on devices of JAX
Position = tuple[int, int]
Rows = Callable[[int], Int[np.ndarray, "n"]]  # of a batch of so many rows, those wanted; ascending


class Batches:
    """The batches of a corpus, at random access.

    A batch has "index", int32 [B], each row's example in the corpus (-1: no example, the row is
    zeros), and for each column an int32 [B, width] array padded with zeros. B and the widths are
    those of the batch's shape, whether or not it is full.

    Of a `PackedPlan` a row holds several examples end to end, "index" has the first of them, and
    for each column there is an int32 [B, width] array "COLUMN_segments": 1 where the row's first
    example has its tokens, 2 for the second and so on, the same number in all columns, 0 where
    there is padding.
    """

    def __init__(self, corpus: Corpus, columns: Sequence[str], plan: Plan):
        """Batches of the given columns; the plan's shapes have their widths in the same order."""
        self.corpus, self.columns, self.plan = corpus, tuple(columns), plan
        self._taken: Rows = np.arange

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return self.plan.batches

    @property
    def shapes(self) -> list[dict[str, tuple[int, ...]]]:
        """The shape of every array in every shape of batch: what will be compiled."""
        packed = isinstance(self.plan, PackedPlan)
        names = [(c, f"{c}_segments") if packed else (c,) for c in self.columns]
        return [
            {"index": (rows,)}
            | {name: (rows, w) for c, w in zip(names, widths, strict=True) for name in c}
            for rows, widths in zip(self.plan.rows.tolist(), self.plan.shapes.tolist(), strict=True)
        ]

    def select_rows(self, rows: Rows) -> "Batches":
        """The same batches, of which only some rows are read.

        Args:
          rows: which; those beyond the last are empty ones.
        """
        taken = copy.copy(self)
        taken._taken = rows
        return taken

    def epoch(self, epoch: int) -> "Epoch":
        """The batches of one epoch, each read when it is indexed."""
        return Epoch(self.read, self.plan.epoch(epoch))

    def examples(self, position: Position) -> Int[np.ndarray, "n"]:
        """The numbers in the corpus of the examples in the batch at (epoch, batch), row by row."""
        more, batch = divmod(position[1], len(self))
        return self.plan.epoch(position[0] + more)[batch].examples

    def read(self, planned: PlannedBatch) -> Batch:
        """The arrays of one planned batch.

        Raises:
          ValueError: if an example is longer than its row: nothing is ever truncated.
        """
        examples, places, index = planned.examples, planned.places, self.index(planned)
        widths = self.plan.shapes[planned.shape].tolist()
        batch = {"index": index}
        if not isinstance(self.plan, PackedPlan):
            gather = self.corpus.gather
            return batch | {
                c: gather(index, c, width) for c, width in zip(self.columns, widths, strict=True)
            }
        rows = self._taken(int(self.plan.rows[planned.shape]))
        here = np.isin(places, rows)
        examples, places = examples[here], np.searchsorted(rows, places[here])
        lengths = self.plan.lengths(examples).T
        for column, width, length in zip(self.columns, widths, lengths, strict=True):
            tokens = self.corpus.gather(examples, column, width)
            batch |= _packed(column, tokens, length, places, len(index))
        return batch

    def index(self, planned: PlannedBatch) -> Int[np.ndarray, "B"]:
        """Each row's example, the first if there are several; -1 where there is none."""
        index = np.full(self.plan.rows[planned.shape], -1, np.int32)
        index[planned.places[::-1]] = planned.examples[::-1]
        rows = self._taken(len(index))
        return np.where(rows < len(index), index[np.minimum(rows, len(index) - 1)], -1)


def _packed(
    column: str, tokens: np.ndarray, lengths: np.ndarray, places: np.ndarray, rows: int
) -> Batch:
    """Examples that are a row each, `tokens` [n, width], end to end in the rows `places`."""
    columns = np.arange(tokens.shape[1])
    filled = columns < np.bincount(places, lengths, rows)[:, None]
    packed, segments = np.zeros((2, *filled.shape), np.int32)
    packed[filled] = tokens[columns < lengths[:, None]]
    number = np.arange(len(places)) - np.searchsorted(places, places) + 1
    segments[filled] = np.repeat(number, lengths)
    return {column: packed, f"{column}_segments": segments}


class Epoch(Sequence[Batch]):
    """The batches of one epoch, each read when it is indexed."""

    def __init__(self, read: Callable[[PlannedBatch], Batch], planned: Sequence[PlannedBatch]):
        self._read, self._planned = read, planned

    def __len__(self) -> int:
        return len(self._planned)

    def __getitem__(self, at):
        return self._read(self._planned[at])


def stream(
    batches: Batches, position: Position = (0, 0), ahead: int = 4
) -> Iterator[tuple[Position, Batch]]:
    """Batches without end from a position on, read ahead in one thread.

    Args:
      batches: what to read; its epochs follow each other.
      position: (epoch, batch) of the first batch to give.
      ahead: how many batches are ready at most.

    Yields:
      ((epoch, batch) of the next batch, this batch): what a checkpoint keeps to go on from here.

    Raises:
      ValueError: if there are no batches, or the position is not one of theirs.
    """
    if not len(batches) or min(position) < 0 or position[1] > len(batches):
        raise ValueError(f"position {position} of {len(batches)} batches an epoch")
    return _read_ahead(_Stream(batches, position[0] * len(batches) + position[1]), ahead)


def _read_ahead(source: "_Stream", ahead: int) -> Iterator[tuple[Position, Batch]]:
    import grain  # half a second, where batches are read only

    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=ahead)
    iterator = iter(grain.MapDataset.source(source).to_iter_dataset(options))
    try:
        yield from iterator
    finally:
        iterator.close()


class _Stream:
    """All epochs end to end from a first batch on, as grain wants a source: by number."""

    def __init__(self, batches: Batches, first: int):
        self._batches, self._first = batches, first
        self._epoch: tuple[int, Sequence[Batch]] = (-1, ())

    def __len__(self) -> int:
        return 2**40

    def __getitem__(self, at) -> tuple[Position, Batch]:
        number, size = self._first + int(at), len(self._batches)
        epoch, batch = divmod(number, size)
        if self._epoch[0] != epoch:
            self._epoch = (epoch, self._batches.epoch(epoch))
        return divmod(number + 1, size), self._epoch[1][batch]
