"""A run's prepared corpus: built once for all runs alike, found again, reported.

A family brings a `Builder` of the prepared folder, which it imports when it is asked for one, and a
subclass of `PreparedData`, which reads the folder.
"""

import abc
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from common_jax.bad_examples import Counts, summary
from common_jax.data.corpus import Writer, prepare
from common_jax.errors import UserError

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")

_log = logging.getLogger(__name__)


@runtime_checkable
class Builder(Protocol):
    """Builds a prepared folder."""

    def fingerprint(self) -> dict[str, Any]:
        """All that decides the folder's content, as JSON; reads every file once."""

    def build(self, folder: Path) -> None:
        """Fills the empty folder.

        Raises:
          UserError: whatever is wrong with the data.
        """


class PreparedData(abc.ABC):
    """One run's corpus. Making it touches no file; `prepare` does.

    The vocabulary is there after `prepare` or `read_vocabulary`, all else after `prepare`.

    Attributes:
      unit: what messages call the examples: "questions".
      config: the family's `DataConfig`.
    """

    unit: ClassVar[str]
    config: Any

    def __init__(self) -> None:
        self._path: Path | None = None
        self._seconds: float | None = None

    @abc.abstractmethod
    def builder(self) -> Builder:
        """Finds the sources.

        Raises:
          UserError: if one is missing.
        """

    @abc.abstractmethod
    def read_vocabulary(self, folder: Path) -> None:
        """Reads the vocabulary that a run was trained with, for the `prepare` that follows.

        Raises:
          UserError: if it is missing or broken.
        """

    @abc.abstractmethod
    def _adopt_vocabulary(self, folder: Path) -> None:
        """Reads the prepared folder's vocabulary; raises UserError if what was trained with the
        run's own cannot be used with it."""

    @abc.abstractmethod
    def split_sizes(self) -> Mapping[str, tuple[int, Counts]]:
        """For each split how many examples there are, and what was left out."""

    def prepare(self) -> None:
        """Builds the prepared folder, or finds it; a second call does nothing.

        Raises:
          UserError: a missing or broken file, a bad example (data.on_bad_example), nothing left to
            train on, too little text for a vocabulary or a held-out split, a cache folder that
            cannot be written, or another vocabulary than the run's.
        """
        if self._path is not None:
            return
        builder = self.builder()

        def build(folder: Path) -> None:
            began = time.monotonic()
            builder.build(folder)
            self._seconds = time.monotonic() - began

        path = prepare(self.config.cache_dir, builder.fingerprint(), build)
        self._adopt_vocabulary(path)
        self._path = path

    def report(self) -> None:
        """Logs how much is prepared, how long it took if it was now, and what was left out."""
        sizes = self.split_sizes()
        _log.info("%s in %s", self._size_line(sum(n for n, _ in sizes.values())), self.path)
        for split, (count, dropped) in sizes.items():
            if reasons := summary(dropped):
                _log.warning("%s: kept %d %s, left out %s", split, count, self.unit, reasons)

    def _size_line(self, total: int) -> str:
        """How many examples are prepared, and in what time."""
        origin = "found" if self._seconds is None else f"in {self._seconds:.0f} s prepared"
        return f"{origin} {total:,} {self.unit}"

    @property
    def prepared(self) -> bool:
        """Whether `prepare` has been called."""
        return self._path is not None

    @property
    def path(self) -> Path:
        """The prepared folder."""
        if self._path is None:
            raise RuntimeError(f"{type(self).__name__}: call prepare() first")
        return self._path


def require_some(count: int, unit: str, split: str, place: str, dropped: Counts) -> None:
    """Raises UserError if nothing is left of a split, with what was left out."""
    if not count:
        reasons = summary(dropped)
        raise UserError(
            f"{place}: no {unit} left for {split}" + (f": {reasons}" if reasons else "")
        )


def finish_split(corpus: Writer, unit: str, split: str, place: str, dropped: Counts) -> None:
    """Has a written corpus remember what was left out.

    Raises:
      UserError: if nothing is left.
    """
    require_some(corpus.rows, unit, split, place, dropped)
    corpus.meta["dropped"] = dropped
