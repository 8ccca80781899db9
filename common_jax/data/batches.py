"""Batches of fixed shapes from a prepared corpus and a plan, and an infinite stream of them."""

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int, Shaped

from common_jax.data.corpus import Corpus
from common_jax.data.packing import PackedPlan
from common_jax.data.plan import Plan, PlannedBatch

Batch = dict[str, Shaped[Any, "..."]]  # arrays of NumPy, or on devices of JAX
Position = tuple[int, int]  # epoch and batch
Rows = Callable[[int], Int[np.ndarray, "n"]]  # selects rows of a batch by its size; ascending
_PREFETCHED = 4  # batches


class Batches:
    """The batches of a corpus, with random access.

    A batch has "index", int32 [B], each row's example in the corpus (-1: no example, the row is
    zeros), and for each column an int32 [B, width] array padded with zeros. B and the widths are
    those of the batch's shape, whether or not it is full.

    With a `PackedPlan` a row has several concatenated examples, "index" has the first of them, and
    for each column there is an int32 [B, width] array "COLUMN_segments": 1 for tokens of the row's
    first example, 2 for the second and so on, the same in all columns, and 0 for padding.
    """

    def __init__(self, corpus: Corpus, columns: Sequence[str], plan: Plan):
        """Batches of the given columns; the plan's shapes have their widths in the same order."""
        self.corpus, self.columns, self.plan = corpus, tuple(columns), plan
        self._selected: Rows = np.arange

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return self.plan.batches

    def select_rows(self, rows: Rows) -> "Batches":
        """The same batches, of which only the selected rows are read.

        Args:
          rows: selects them; rows beyond the last are empty.
        """
        view = copy.copy(self)
        view._selected = rows
        return view

    def epoch(self, epoch: int) -> "Epoch":
        """The batches of one epoch, each read upon access."""
        return Epoch(self.read, self.plan.epoch(epoch))

    def examples(self, position: Position) -> Int[np.ndarray, "n"]:
        """The corpus indices of the examples in the batch at (epoch, batch), row by row."""
        more, batch = divmod(position[1], len(self))
        return self.plan.epoch(position[0] + more)[batch].examples

    def read(self, planned: PlannedBatch) -> Batch:
        """The arrays of one planned batch.

        Raises:
          ValueError: if an example is longer than its row; nothing is truncated.
        """
        index, widths = self.index(planned), self.plan.shapes[planned.shape].tolist()
        batch = {"index": index}
        if not isinstance(self.plan, PackedPlan):
            gather = self.corpus.gather
            return batch | {
                c: gather(index, c, width) for c, width in zip(self.columns, widths, strict=True)
            }
        rows = self._selected(int(self.plan.rows[planned.shape]))
        selected = np.isin(planned.places, rows)
        examples = planned.examples[selected]
        places = np.searchsorted(rows, planned.places[selected])
        lengths = self.plan.lengths(examples).T
        for column, width, length in zip(self.columns, widths, lengths, strict=True):
            tokens = self.corpus.gather(examples, column, width)
            batch |= _packed(column, tokens, length, places, len(index))
        return batch

    def index(self, planned: PlannedBatch) -> Int[np.ndarray, "B"]:
        """Each row's first example; -1 for an empty row."""
        index = np.full(self.plan.rows[planned.shape], -1, np.int32)
        index[planned.places[::-1]] = planned.examples[::-1]
        rows = self._selected(len(index))
        return np.where(rows < len(index), index[np.minimum(rows, len(index) - 1)], -1)


def _packed(
    column: str, tokens: np.ndarray, lengths: np.ndarray, places: np.ndarray, rows: int
) -> Batch:
    """Concatenates the examples `tokens` [n, width] in the rows `places`."""
    columns = np.arange(tokens.shape[1])
    filled = columns < np.bincount(places, lengths, rows)[:, None]
    packed, segments = np.zeros((2, *filled.shape), np.int32)
    packed[filled] = tokens[columns < lengths[:, None]]
    number = np.arange(len(places)) - np.searchsorted(places, places) + 1
    segments[filled] = np.repeat(number, lengths)
    return {column: packed, f"{column}_segments": segments}


class Epoch(Sequence[Batch]):
    """The batches of one epoch, each read upon access."""

    def __init__(self, read: Callable[[PlannedBatch], Batch], planned: Sequence[PlannedBatch]):
        self._read, self._planned = read, planned

    def __len__(self) -> int:
        return len(self._planned)

    def __getitem__(self, at):
        return self._read(self._planned[at])


def stream(batches: Batches, position: Position = (0, 0)) -> Iterator[tuple[Position, Batch]]:
    """An infinite stream of batches, epoch after epoch, prefetched in one thread.

    Args:
      position: (epoch, batch) of the first batch.

    Yields:
      ((epoch, batch) of the next batch, which checkpoints store to resume, this batch).

    Raises:
      ValueError: if there are no batches, or the position is out of range.
    """
    if not len(batches) or min(position) < 0 or position[1] > len(batches):
        raise ValueError(f"position {position} of {len(batches)} batches an epoch")
    return _prefetch(_Stream(batches, position[0] * len(batches) + position[1]))


def _prefetch(source: "_Stream") -> Iterator[tuple[Position, Batch]]:
    import grain  # takes half a second

    options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=_PREFETCHED)
    iterator = iter(grain.MapDataset.source(source).to_iter_dataset(options))
    try:
        yield from iterator
    finally:
        iterator.close()


class _Stream:
    """The batches of all epochs from the batch number `first` on, as a source for grain."""

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
