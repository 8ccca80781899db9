"""Texts that come as they like, read together: few shapes of batches, hence few compilations."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32


class Group(NamedTuple):
    """Texts of like lengths, for one batch.

    Attributes:
      members: their numbers, at most `rows`.
      rows, widths: the batch's; a width for each of the texts that an example has.
    """

    members: list[int]
    rows: int
    widths: tuple[int, ...]


def groups(lengths: Sequence[tuple[int, ...]], positions: int) -> Iterator[Group]:
    """All examples, those of like lengths together, shorter ones first.

    Args:
      lengths: of each example's texts.
      positions: of the widest text, in a batch; a longer one comes alone.
    """
    widths = [tuple(map(padded_width, texts)) for texts in lengths]
    order = sorted(range(len(widths)), key=widths.__getitem__)
    for shape, members in itertools.groupby(order, key=widths.__getitem__):
        alike = list(members)
        rows = batch_rows(len(alike), max(shape), positions)
        for start in range(0, len(alike), rows):
            yield Group(alike[start : start + rows], rows, shape)


def batch_rows(count: int, width: int, positions: int) -> int:
    """How many rows of so wide a batch `count` examples take: a power of two, or what fits."""
    return min(max(1, positions // width), 1 << (count - 1).bit_length())


def padded_width(length: int) -> int:
    """The next of 8, 12, 16, 24, 32, 48, ...: at most half of it more than there is."""
    width = 8
    while width < length:
        width = width * 3 // 2 if width & (width - 1) == 0 else width * 4 // 3
    return width


def padded(texts: Sequence[Sequence[int]], rows: int, width: int) -> Int32[np.ndarray, "B T"]:
    """The numbers of each text in a row of its own, zeros behind it and below."""
    array = np.zeros((rows, width), np.int32)
    for row, numbers in zip(array, texts, strict=False):
        row[: len(numbers)] = numbers
    return array
