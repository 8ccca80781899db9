"""Batches of fixed shapes from a prepared corpus and a plan, an infinite stream of them, and the
groups that one dispatch takes."""

import collections
import copy
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int, Shaped

from common_jax.config import TrainConfig
from common_jax.data.corpus import Corpus
from common_jax.data.epoch_plan import Plan, PlannedBatch

Batch = dict[str, Shaped[Any, "..."]]  # arrays of NumPy, or on devices of JAX
Position = tuple[int, int]  # epoch and batch, the next to read
Rows = Callable[[int], Int[np.ndarray, "n"]]  # selects rows of a batch by its size; ascending
_PREFETCHED = 4  # batches
T = TypeVar("T")


class Batches:
    """The batches of a corpus, with random access.

    A batch has "index", int32 [B], each row's example in the corpus (-1: no example, the row is
    zeros), and for each column an int32 [B, width] array padded with zeros. B and the widths are
    those of the batch's shape, whether or not it is full.
    """

    def __init__(self, corpus: Corpus, columns: Sequence[str], plan: Plan):
        """Reads `columns`; the plan's shapes have their widths in the same order."""
        self.corpus = corpus
        self.columns = tuple(columns)
        self.plan = plan
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
        index = self.index(planned)
        widths = self.plan.shapes[planned.shape].tolist()
        columns = zip(self.columns, widths, strict=True)
        return {"index": index} | {c: self.corpus.gather(index, c, width) for c, width in columns}

    def index(self, planned: PlannedBatch) -> Int[np.ndarray, "B"]:
        """Each row's first example; -1 for an empty row."""
        index = np.full(self.plan.rows[planned.shape], -1, np.int32)
        index[planned.rows[::-1]] = planned.examples[::-1]
        rows = self._selected(len(index))
        return np.where(rows < len(index), index[np.minimum(rows, len(index) - 1)], -1)


class Epoch(Sequence[Batch]):
    """The batches of one epoch, each read upon access."""

    def __init__(self, read: Callable[[PlannedBatch], Batch], planned: Sequence[PlannedBatch]):
        self._read = read
        self._planned = planned

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
        raise ValueError(f"position {position}: an epoch has {len(batches)} batches")
    first = position[0] * len(batches) + position[1]
    return _prefetch(functools.partial(next, _batches_from(batches, first)))


def group_steps(
    batches: Iterable[tuple[Position, Batch]], step: int, config: TrainConfig
) -> Iterator[tuple[Position, list[Batch]]]:
    """Groups batches for dispatches of `train.steps_per_call` steps, or one.

    The batches of a group have one shape, and only the last may be followed by a log line, a
    validation, a save or the end. Groups depend on the step numbers and shapes alone, so that a
    resumed run has the same.

    Args:
      batches: as of `stream`.
      step: steps already taken.
    """
    intervals = (config.log_every, config.evaluate_every, config.checkpoint_every, config.steps)
    group: list[tuple[Position, Batch]] = []
    complete = step % config.steps_per_call == 0
    for number, item in enumerate(batches, start=step + 1):
        group.append(item)
        if number % config.steps_per_call:
            complete = complete and not any(number % every == 0 for every in intervals)
            continue
        shapes = {tuple((k, v.shape) for k, v in batch.items()) for _, batch in group}
        if complete and len(shapes) == 1:
            yield group[-1][0], [batch for _, batch in group]
        else:
            yield from ((following, [batch]) for following, batch in group)
        group = []
        complete = True


def _batches_from(batches: Batches, first: int) -> Iterator[tuple[Position, Batch]]:
    """The batches from number `first` on, epoch after epoch, with the position of the next."""
    size = len(batches)
    for number in itertools.count(first // size):
        epoch = batches.epoch(number)
        for batch in range(max(first - number * size, 0), size):
            yield divmod(number * size + batch + 1, size), epoch[batch]


def _prefetch(read: Callable[[], T]) -> Iterator[T]:
    """The results of repeated calls; a thread makes `_PREFETCHED` of them ahead."""
    reader = ThreadPoolExecutor(1, "batches")
    ahead = collections.deque(reader.submit(read) for _ in range(_PREFETCHED))
    try:
        while True:
            yield ahead.popleft().result()
            ahead.append(reader.submit(read))
    finally:
        reader.shutdown(cancel_futures=True)
