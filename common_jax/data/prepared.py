"""A run's prepared corpus, built once and shared by all runs with the same data settings.

A family provides a `Builder`, which fills the prepared folder and is imported only when needed, and
a subclass of `PreparedData`, which reads the folder.
"""

import abc
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from common_jax.bad_examples import Counts, summary
from common_jax.data.corpus import Writer, prepare
from common_jax.errors import UserError
from common_jax.text.cleaning import FAR

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")

_NUMBERS = 5  # of overlong examples that are named

_log = logging.getLogger(__name__)


@runtime_checkable
class Builder(Protocol):
    """Builds a prepared folder."""

    def fingerprint(self) -> dict[str, Any]:
        """All that determines the folder's content, as JSON; reads every file once."""

    def build(self, folder: Path) -> None:
        """Fills the empty folder.

        Raises:
          UserError: for invalid data.
        """


class PreparedData(abc.ABC):
    """A run's corpus. The constructor accesses no files.

    The vocabulary is available after `prepare` or `read_vocabulary`, all else after `prepare`.

    Attributes:
      unit: the name of the examples in messages: "questions".
      config: the family's `DataConfig`.
    """

    unit: ClassVar[str]
    config: Any

    def __init__(self) -> None:
        self._path: Path | None = None
        self._seconds: float | None = None

    @abc.abstractmethod
    def builder(self) -> Builder:
        """The builder of the prepared folder.

        Raises:
          UserError: if a source is missing.
        """

    @abc.abstractmethod
    def read_vocabulary(self, folder: Path) -> None:
        """Reads the run's own vocabulary, with which a later `prepare` must be compatible.

        Raises:
          UserError: if it is missing or broken.
        """

    @abc.abstractmethod
    def _adopt_vocabulary(self, folder: Path) -> None:
        """Reads the prepared folder's vocabulary; raises UserError if it is incompatible with the
        run's own."""

    def _require_usable(self, folder: Path) -> None:  # noqa: B027
        """Raises UserError if the prepared folder exceeds a limit of the config."""

    @abc.abstractmethod
    def split_sizes(self) -> Mapping[str, tuple[int, Counts]]:
        """The number of examples of each split, and the skipped ones."""

    @abc.abstractmethod
    def input_lengths(self, split: str) -> Int[np.ndarray, "n"]:
        """The length of each example's input, of the longest text that is not cut into windows."""

    def prepare(self) -> None:
        """Builds or opens the prepared folder; a second call does nothing.

        Raises:
          UserError: for a missing or broken file, an invalid example (data.on_bad_example), no
            examples to train on, too little text for a vocabulary or a held-out split, a cache
            folder that cannot be written, a corpus beyond a limit of the config, or a vocabulary
            incompatible with the run's.
        """
        if self._path is not None:
            return
        builder = self.builder()

        def build(folder: Path) -> None:
            began = time.monotonic()
            builder.build(folder)
            self._seconds = time.monotonic() - began

        path = prepare(self.config.cache_dir, builder.fingerprint(), build)
        self._require_usable(path)
        self._adopt_vocabulary(path)
        self._path = path

    def report(self) -> None:
        """Logs the number of examples, the time of their preparation if it was now, the skipped
        examples, and those far longer than any in training."""
        sizes = self.split_sizes()
        _log.info("%s in %s", self._size_line(sum(n for n, _ in sizes.values())), self.path)
        for split, (count, dropped) in sizes.items():
            if reasons := summary(dropped):
                _log.warning("%s: kept %d %s, left out %s", split, count, self.unit, reasons)
            self._report_overlong(split)

    def _report_overlong(self, split: str) -> None:
        lengths, longest = self.input_lengths(split), self.input_lengths("train").max()
        if (overlong := np.flatnonzero(lengths > FAR * longest)).size:
            numbers = ", ".join(map(str, overlong[:_NUMBERS] + 1))
            _log.warning(
                "%s: %d of %d %s have up to %d tokens, where training has at most %d (number %s%s)",
                *(split, overlong.size, lengths.size, self.unit, lengths.max(), longest, numbers),
                ", ..." if overlong.size > _NUMBERS else "",
            )

    def _size_line(self, total: int) -> str:
        """The number of examples, and the time of their preparation if it was now."""
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
    """Raises UserError if no examples of a split are left, with the reasons."""
    if not count:
        reasons = summary(dropped)
        raise UserError(
            f"{place}: no {unit} left for {split}" + (f": {reasons}" if reasons else "")
        )


def finish_split(corpus: Writer, unit: str, split: str, place: str, dropped: Counts) -> None:
    """Stores the skipped examples in the corpus of a split.

    Raises:
      UserError: if no examples are left.
    """
    require_some(corpus.rows, unit, split, place, dropped)
    corpus.meta["dropped"] = dropped
