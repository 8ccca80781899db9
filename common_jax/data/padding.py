"""Groups inference requests of similar length into few padded shapes, to limit recompilation."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32


class Group(NamedTuple):
    """Examples of similar lengths, for one batch.

    Attributes:
      members: their indices, at most `rows`.
      rows, widths: of the batch; a width for each of an example's texts.
    """

    members: list[int]
    rows: int
    widths: tuple[int, ...]


def groups(lengths: Sequence[tuple[int, ...]], positions: int) -> Iterator[Group]:
    """Groups all examples by similar lengths, longer ones first.

    Args:
      lengths: of each example's texts.
      positions: the most in a batch's widest text, rows x width; a longer text is a batch alone.
    """
    return grouped([tuple(map(padded_width, texts)) for texts in lengths], positions)


def grouped(widths: Sequence[tuple[int, ...]], positions: int) -> Iterator[Group]:
    """Groups examples of padded widths; arguments as of `groups`.

    A batch is filled with the next shorter examples, those of more than half its width. What is
    left has a batch of the same shape if the widths are equal, and otherwise few rows. Chunks of
    SQuAD's questions have some 28 shapes, not 162 as in batches of equal widths, and less padding.
    """
    order = sorted(range(len(widths)), key=lambda at: (max(widths[at]), widths[at]), reverse=True)
    filled: tuple[int, ...] = ()
    while order:
        widest = max(widths[order[0]])
        rows = max(1, positions // widest)
        members = [at for at in order[:rows] if 2 * max(widths[at]) > widest]
        del order[: len(members)]
        columns = zip(*(widths[at] for at in members), strict=True)
        shape = tuple(_coarse(max(column), widest) for column in columns)
        if shape != filled:
            rows = min(rows, 1 << (len(members) - 1).bit_length())
        yield Group(members, rows, shape)
        filled = shape


def _coarse(width: int, widest: int) -> int:
    """The width of a text beside the widest one: a power of two from 16 on, or the widest."""
    return min(max(16, 1 << (width - 1).bit_length()), widest)


def padded_width(length: int) -> int:
    """`length` rounded up to one of 8, 12, 16, 24, 32, 48, ..."""
    width = 8
    while width < length:
        width = width * 3 // 2 if width & (width - 1) == 0 else width * 4 // 3
    return width


def padded(texts: Sequence[Sequence[int]], rows: int, width: int) -> Int32[np.ndarray, "B T"]:
    """The ids of each text in a row of its own, padded with zeros."""
    array = np.zeros((rows, width), np.int32)
    for row, numbers in zip(array, texts, strict=False):
        row[: len(numbers)] = numbers
    return array
