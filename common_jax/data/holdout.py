"""Holds out groups of training examples for dev and test, chosen in one streaming pass.

All examples of a group (a sentence's translations, a premise's hypotheses, an article) are in one
split. Examples are added one by one, storing a few bytes of each; then each is assigned a split.
"""

import abc
import array
import hashlib
import random
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from common_jax.errors import UserError


class HoldOut(abc.ABC):
    """A rule that selects the held-out groups."""

    def __init__(self, splits: Sequence[str], size: int, seed: int, unit: str):
        """
        Args:
          splits: to hold out; may be empty.
          size: of each of them, `data.holdout_size`.
          unit: the name of the counted items for messages.
        """
        self.splits = splits
        self._size = size
        self._seed = seed
        self._unit = unit

    @abc.abstractmethod
    def add(self, group: str) -> None:
        """Adds the next example, by its group."""

    @abc.abstractmethod
    def assign(self, source: str) -> Int[np.ndarray, "n"]:
        """The split of each added example: 0 is train, n is `splits[n - 1]`.

        Args:
          source: of the examples, for error messages.

        Raises:
          UserError: if no training examples would remain.
        """

    def rows(self, source: str) -> dict[str, Int[np.ndarray, "_"]]:
        """The indices of the examples in train and in each held-out split, as `assign`."""
        assigned = self.assign(source)
        return {s: np.flatnonzero(assigned == n) for n, s in enumerate(("train", *self.splits))}


class SmallestHashes(HoldOut):
    """The groups with the smallest salted hashes, `size` groups for each split."""

    def __init__(self, splits: Sequence[str], size: int, seed: int, unit: str):
        super().__init__(splits, size, seed, unit)
        self._hashes = array.array("Q")

    def add(self, group: str) -> None:
        salt = str(self._seed).encode()
        digest = hashlib.blake2b(group.strip().encode(), digest_size=8, key=salt).digest()
        self._hashes.append(int.from_bytes(digest, "little"))

    def assign(self, source: str) -> Int[np.ndarray, "n"]:
        hashes = np.frombuffer(self._hashes, np.uint64)
        distinct = np.unique(hashes)
        count = len(self.splits)
        if self._size * count >= len(distinct):
            raise UserError(
                f"data.holdout_size={self._size}: {source}: train has {len(distinct)} distinct "
                f"{self._unit}, too few to hold out {self._size * count}; "
                f"at most {max(0, len(distinct) - 1) // count} are possible"
            )
        bounds = distinct[[n * self._size for n in range(1, count + 1)]]
        above = np.searchsorted(bounds, hashes, side="right").astype(np.int8)
        return (above + 1) % (count + 1)


class ShuffledGroups(HoldOut):
    """Groups in a random order, until each split has at least `size` examples."""

    def __init__(self, splits: Sequence[str], size: int, seed: int, unit: str):
        super().__init__(splits, size, seed, unit)
        self._numbers: dict[str, int] = {}  # of groups, in the order of their first examples
        self._groups = array.array("i")  # the group's number of each example

    def add(self, group: str) -> None:
        self._groups.append(self._numbers.setdefault(group, len(self._numbers)))

    def assign(self, source: str) -> Int[np.ndarray, "n"]:
        groups = np.frombuffer(self._groups, np.int32)
        sizes = np.bincount(groups)
        split_of = np.zeros(len(self._numbers), np.int8)

        # whole groups in random order, until each split has its size
        names = sorted(self._numbers)
        random.Random(self._seed).shuffle(names)
        for split in range(1, len(self.splits) + 1):
            size = 0
            while names and size < self._size:
                group = self._numbers[names.pop()]
                split_of[group] = split
                size += int(sizes[group])

        # at least one group must remain to train on
        if not names:
            raise UserError(
                f"data.holdout_size={self._size}: too many for {len(groups)} {self._unit} to train "
                "on; hold out fewer, or name files for dev and test"
            )
        return split_of[groups]
