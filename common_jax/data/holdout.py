"""Holds out groups of training examples for dev and test, chosen in one streaming pass.

All examples of a group (a sentence's translations, a premise's hypotheses, an article) are in one
split. Examples are added one by one, storing a few bytes of each; then each is assigned a split.
"""

import abc
import array
import hashlib
import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from common_jax.errors import UserError

_LEAST = 20  # examples of a split whose size is inferred
_TRAINED = 0.8  # least share of examples that then remain to train on


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
        self.unit = unit

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

    @property
    @abc.abstractmethod
    def groups(self) -> int:
        """The number of distinct groups of the added examples."""

    def fit_size(self, source: str) -> int:
        """Lowers the size to a tenth of the groups, but not below `_LEAST`, and returns it; raises
        UserError, which names the source, if less than `_TRAINED` would remain to train on."""
        self._size = min(self._size, max(_LEAST, self.groups // 10))
        try:
            remaining = float(np.mean(self.assign(source) == 0))
        except UserError:  # nothing remains
            remaining = 0.0
        if remaining < _TRAINED:
            raise UserError(
                f"{source}: {self.groups} distinct {self.unit} are too few to hold {self._size} "
                f"out for each of {' and '.join(self.splits)}, which leaves {remaining:.0%} of the "
                "examples to train on; name files of their own"
            )
        return self._size

    def rows(self, source: str) -> dict[str, Int[np.ndarray, "_"]]:
        """The indices of the examples in train and in each held-out split, as `assign`."""
        assigned = self.assign(source)
        return {s: np.flatnonzero(assigned == n) for n, s in enumerate(("train", *self.splits))}


def text_hash(text: str, seed: int = 0) -> int:
    """A number of 64 bits for a text without blanks around it."""
    key = str(seed).encode()
    digest = hashlib.blake2b(text.strip().encode(), digest_size=8, key=key).digest()
    return int.from_bytes(digest, "little")


class SmallestHashes(HoldOut):
    """The groups with the smallest salted hashes, `size` groups for each split."""

    def __init__(self, splits: Sequence[str], size: int, seed: int, unit: str):
        super().__init__(splits, size, seed, unit)
        self._hashes = array.array("Q")

    def add(self, group: str) -> None:
        self._hashes.append(text_hash(group, self._seed))

    @property
    def groups(self) -> int:
        return len(np.unique(np.frombuffer(self._hashes, np.uint64)))

    def assign(self, source: str) -> Int[np.ndarray, "n"]:
        hashes = np.frombuffer(self._hashes, np.uint64)
        distinct = np.unique(hashes)
        count = len(self.splits)
        if self._size * count >= len(distinct):
            raise UserError(
                f"data.holdout_size={self._size}: {source}: train has {len(distinct)} distinct "
                f"{self.unit}, too few to hold out {self._size * count}; "
                f"at most {max(0, len(distinct) - 1) // count} are possible"
            )
        bounds = distinct[[n * self._size for n in range(1, count + 1)]]
        above = np.searchsorted(bounds, hashes, side="right").astype(np.int8)
        return (above + 1) % (count + 1)


class ShuffledGroups(HoldOut):
    """Groups in a random order, until each split has at least `size` examples; each stratum has its
    share of every split, up to rounding."""

    def __init__(self, splits: Sequence[str], size: int, seed: int, unit: str):
        super().__init__(splits, size, seed, unit)
        self._numbers: dict[str, int] = {}  # of groups, in the order of their first examples
        self._groups = array.array("i")  # the group's number of each example
        self._strata: dict[str, str] = {}  # that of each group's first example

    @property
    def groups(self) -> int:
        return len(self._numbers)

    def add(self, group: str, stratum: str = "") -> None:
        self._groups.append(self._numbers.setdefault(group, len(self._numbers)))
        if stratum:
            self._strata.setdefault(group, stratum)

    def _ordered(self) -> list[str]:
        """The groups in random order, those of each stratum evenly spread over it."""
        names = sorted(self._numbers)
        random.Random(self._seed).shuffle(names)
        if not self._strata:
            return names
        stratum_of = {name: self._strata.get(name, "") for name in names}
        sizes = Counter(stratum_of.values())
        before = Counter[str]()
        places = {}
        for name, stratum in stratum_of.items():
            places[name] = (before[stratum] + 0.5) / sizes[stratum]
            before[stratum] += 1
        return sorted(names, key=places.__getitem__)

    def assign(self, source: str) -> Int[np.ndarray, "n"]:
        groups = np.frombuffer(self._groups, np.int32)
        sizes = np.bincount(groups)
        split_of = np.zeros(len(self._numbers), np.int8)

        # whole groups in random order, until each split has its size
        names = self._ordered()
        for split in range(1, len(self.splits) + 1):
            size = 0
            while names and size < self._size:
                group = self._numbers[names.pop()]
                split_of[group] = split
                size += int(sizes[group])

        # at least one group must remain to train on
        if not names:
            raise UserError(
                f"data.holdout_size={self._size}: too many for {len(groups)} {self.unit} to train "
                "on; hold out fewer, or name files for dev and test"
            )
        return split_of[groups]
