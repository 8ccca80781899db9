"""Groups inference requests of similar length into few padded shapes, to limit recompilation."""

import itertools
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
    """Groups all examples by similar lengths, shorter ones first.

    Args:
      lengths: of each example's texts.
      positions: the most in a batch's widest text, rows x width; a longer text is a batch alone.
    """
    return grouped([tuple(map(padded_width, texts)) for texts in lengths], positions)


def grouped(widths: Sequence[tuple[int, ...]], positions: int) -> Iterator[Group]:
    """Groups examples of equal padded widths; arguments as of `groups`."""
    order = sorted(range(len(widths)), key=widths.__getitem__)
    for shape, members in itertools.groupby(order, key=widths.__getitem__):
        same_shape = list(members)
        rows = batch_rows(len(same_shape), max(shape), positions)
        for start in range(0, len(same_shape), rows):
            yield Group(same_shape[start : start + rows], rows, shape)


def batch_rows(count: int, width: int, positions: int) -> int:
    """The rows of a batch of `count` examples: the next power of two, or the most that fit."""
    return min(max(1, positions // width), 1 << (count - 1).bit_length())


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
