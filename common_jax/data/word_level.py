"""A run's corpus of words: prepared once for all runs alike, found again, reported and planned.

A family brings a `Builder` of the prepared folder and a subclass of `WordLevelData` that reads it.
"""

import abc
import json
import logging
import time
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from common_jax.bad_examples import BadExamples, summary
from common_jax.data.batches import Batches
from common_jax.data.cached_arrays import cached_arrays
from common_jax.data.corpus import file_identity, prepare
from common_jax.data.plan import BucketPlan, choose_shapes
from common_jax.errors import UserError
from common_jax.text import sentence_splitter, word_tokenizer
from common_jax.text.vectors import Vectors, read_vectors
from common_jax.text.vocabulary import Vocabulary

Dropped = dict[str, dict[str, Any]]  # `BadExamples.counts`

_COVERAGE = "vectors.json"
_log = logging.getLogger(__name__)


@runtime_checkable
class Builder(Protocol):
    """What `common_jax.data.corpus.prepare` wants. Its folder has the vocabulary."""

    def fingerprint(self) -> dict[str, Any]:
        """All that decides the folder's content."""

    def build(self, folder: Path) -> None:
        """Fills the empty folder.

        Raises:
          UserError: whatever is wrong with the data.
        """


class WordLevelData(abc.ABC):
    """One run's corpus. Making it touches no file; `prepare` does, once for all runs alike.

    The vocabulary is there after `prepare` or `read_vocabulary`, all else after `prepare`.

    Attributes:
      counted: what messages call the examples: "questions".
      config: the family's `DataConfig`.
    """

    counted: ClassVar[str]
    config: Any

    def __init__(self) -> None:
        self._path: Path | None = None
        self._seconds: float | None = None
        self._vocabulary: Vocabulary | None = None

    @abc.abstractmethod
    def builder(self) -> Builder:
        """Finds the sources.

        Raises:
          UserError: if one is missing.
        """

    @abc.abstractmethod
    def reconcile_vocabulary(self, known: Vocabulary, found: Vocabulary) -> Vocabulary:
        """The vocabulary to go on with, given the run's own and that of the prepared folder.

        Raises:
          UserError: if what was trained with the one cannot be used with the other.
        """

    @abc.abstractmethod
    def train_batches(self, seed: int) -> Batches:
        """The training split, its order a function of `seed` and the epoch.

        Raises:
          UserError: if what is prepared cannot be trained on.
        """

    @abc.abstractmethod
    def split_batches(self, split: str) -> Batches:
        """Every example of an evaluated split once, by length."""

    @abc.abstractmethod
    def kept(self) -> Mapping[str, tuple[int, Dropped]]:
        """For each split how many examples there are, and what was left out."""

    def prepare(self) -> None:
        """Builds the prepared folder, or finds it; a second call does nothing.

        Raises:
          UserError: a missing or broken file, a bad example (data.on_bad_example), nothing left to
            train on, a cache folder that cannot be written, or other words than the run's.
        """
        if self._path is not None:
            return
        builder = self.builder()
        path = prepare(self.config.cache_dir, builder.fingerprint(), self._timed(builder))
        found = Vocabulary.load(path)
        self._vocabulary = (
            found
            if self._vocabulary is None
            else self.reconcile_vocabulary(self._vocabulary, found)
        )
        self._path = path

    def _timed(self, builder: Builder) -> Any:
        def build(folder: Path) -> None:
            began = time.monotonic()
            builder.build(folder)
            self._seconds = time.monotonic() - began

        return build

    def report(self) -> None:
        """Logs how much is prepared, how fast it was if it was now, and what was left out."""
        kept = self.kept()
        how = "found" if self._seconds is None else f"in {self._seconds:.0f} s prepared"
        total = sum(count for count, _ in kept.values())
        _log.info("%s %s %s in %s", how, f"{total:,}", self.counted, self.path)
        for split, (count, dropped) in kept.items():
            if said := summary(dropped):
                _log.warning("%s: kept %d %s, left out %s", split, count, self.counted, said)
        self._report_vectors()

    def _report_vectors(self) -> None:
        file = self.path / _COVERAGE
        if not file.exists():
            _log.info("no data.vectors: word vectors are trained from scratch")
            return
        coverage = json.loads(file.read_text("utf-8"))
        distinct = sum(coverage["found"].values())
        share = 100 * (1 - coverage["found"]["missing"] / max(1, distinct))
        where = self.config.vectors
        _log.info("%.1f%% of %s distinct words have a vector in %s", share, f"{distinct:,}", where)
        if dropped := summary(coverage["dropped"]):
            _log.warning("%s: left out %s", where, dropped)

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

    @property
    def vocabulary(self) -> Vocabulary:
        """Words, and characters where the family has them."""
        if self._vocabulary is None:
            raise RuntimeError(f"{type(self).__name__}: call prepare() or read_vocabulary() first")
        return self._vocabulary

    def read_vocabulary(self, folder: Path) -> None:
        """Reads the vocabulary that a run was trained with, for the `prepare` that follows.

        Raises:
          UserError: if it is missing or broken.
        """
        self._vocabulary = Vocabulary.load(folder)

    def train_plan(self, lengths: Int[np.ndarray, "n c"], seed: int) -> BucketPlan:
        """Batches of `data.batch_size` training examples, their order a function of `seed` and the
        epoch.

        Args:
          lengths: of all examples, which the prepared folder alone decides.
        """
        most = self.config.max_shapes
        find = lambda: {"shapes": choose_shapes(lengths, most)}
        shapes = cached_arrays(self.path / "train" / "plans", f"buckets-{most}", find)["shapes"]
        return BucketPlan(lengths, shapes, 0, seed, batch_size=self.config.batch_size)

    def split_plan(self, split: str, lengths: Mapping[str, Int[np.ndarray, "_ c"]]) -> BucketPlan:
        """Every example of an evaluated split once, by length.

        Args:
          lengths: of all evaluated splits, so that what is compiled for one serves the others.
        """
        shapes = choose_shapes(np.concatenate([*lengths.values()]), self.config.max_shapes)
        return BucketPlan.ordered(lengths[split], shapes, self.config.eval_batch_tokens)


def tokeniser_identity() -> Any:
    """What decides how a text is cut into words, for a fingerprint."""
    code = [file_identity(str(module.__file__)) for module in (word_tokenizer, sentence_splitter)]
    return {"code": code, "nltk": metadata.version("nltk")}


def vectors_identity(file: str) -> Any:
    """The content of `data.vectors`, for a fingerprint; None without.

    Raises:
      UserError: if it cannot be read.
    """
    return file_identity(Path(file).expanduser()) if file else None


def read_word_vectors(
    file: str, wanted: Collection[str], dim: int, bad_examples: BadExamples, folder: Path
) -> Vectors:
    """The vectors of `data.vectors`, and in `folder` what `WordLevelData.report` says of them.

    Raises:
      UserError: as `common_jax.text.vectors.read_vectors`, naming the key.
    """
    try:
        vectors = read_vectors(Path(file).expanduser(), wanted, dim, bad_examples)
    except UserError as error:
        raise UserError(f"data.vectors: {error}") from error
    coverage = {"found": vectors.found, "dropped": bad_examples.counts}
    (folder / _COVERAGE).write_text(json.dumps(coverage, ensure_ascii=False) + "\n", "utf-8")
    return vectors


def require_some(count: int, counted: str, split: str, place: str, dropped: Dropped) -> None:
    """Raises UserError if nothing is left of a split, saying why."""
    if not count:
        said = summary(dropped)
        raise UserError(f"{place}: no {counted} left for {split}" + (f": {said}" if said else ""))
