"""A run's prepared corpus, built once and shared by all runs with the same data settings.

A family provides a `Builder`, which fills the prepared folder and is imported only when needed, and
a subclass of `PreparedData`, which reads the folder.
"""

import abc
import dataclasses
import functools
import itertools
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Int

from common_jax.bad_examples import BadExamples, Counts, summary
from common_jax.data import raw_files
from common_jax.data.corpus import NOT_CONTENT, Corpus, file_identity, is_prepared, prepare
from common_jax.data.overlaps import read_overlaps
from common_jax.errors import UserError
from common_jax.fields import former_values, to_mapping
from common_jax.io import checksums
from common_jax.io.files import ending, is_pattern, matches
from common_jax.io.paths import AnyPath, as_path, expand_user
from common_jax.io.storage import local_copy
from common_jax.text.cleaning import FAR

if TYPE_CHECKING:
    from common_jax.config import SourceConfig, SplitsConfig

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")

_MANY_EQUAL = 0.05  # share of examples with two equal texts; with more there is a warning
_NUMBERS = 5  # of overlong examples that are named
_READINGS = {"quotes": "tsv", "escaped_breaks": "csv"}  # the ending that a field concerns

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Preparation:
    """How a corpus is prepared, beside the fields of its config.

    Attributes:
      vocabulary_from: the folder, also in a bucket, of a vocabulary that encodes the corpus, or its
        path as text; None makes one from train.
      splits: to prepare; empty for all of the config.
      option: suggested by the error for an invalid example (`BadExamples`).
    """

    vocabulary_from: str | AnyPath | None = None
    splits: tuple[str, ...] = ()
    option: str = "data.on_bad_example"

    @functools.cached_property
    def vocabulary(self) -> Path | None:
        """The folder of the vocabulary, on a disk."""
        return None if self.vocabulary_from is None else local_copy(as_path(self.vocabulary_from))

    def bad_examples(self, config: "SourceConfig") -> BadExamples:
        """The policy of a config, with this preparation's `option`."""
        return BadExamples(config.on_bad_example, self.option)

    def identity(self) -> dict[str, Any]:
        """The entry for a fingerprint; empty if the corpus has a vocabulary of its own.

        Raises:
          UserError: if there is no vocabulary.
        """
        if self.vocabulary_from is None:
            return {}
        folder = as_path(self.vocabulary_from)
        files = sorted(self.vocabulary.iterdir()) if self.vocabulary and folder.is_dir() else []
        if not files:
            raise UserError(
                f"data.vocabulary_from={folder.parent}: no run or export with a vocabulary"
            )
        return {"vocabulary_from": {file.name: file_identity(file) for file in files}}


OWN_VOCABULARY = Preparation()


class Builder(abc.ABC):
    """Builds a prepared folder. The constructor accesses no files."""

    def __init__(
        self, config: "SplitsConfig", preparation: Preparation, splits: Sequence[str] = SPLITS
    ):
        """
        Args:
          config: the section `data`.
          splits: those of the config, of which the preparation's are built.
        """
        self._config: Any = config
        self._preparation = preparation
        chosen = preparation.splits or splits
        self._splits = [split for split in splits if split in chosen]

    @abc.abstractmethod
    def _source(self, split: Any) -> Any:
        """The source of a split (`common_jax.data.sources`); None if it is held out of train."""

    @functools.cached_property
    def _sources(self) -> dict[str, Any]:
        """By split; opens the files, or downloads a dataset of TensorFlow Datasets."""
        sources = {split: self._source(split) for split in self._splits}
        return {split: source for split, source in sources.items() if source is not None}

    def _bad_examples(self) -> BadExamples:
        """The policy of the config."""
        return self._preparation.bad_examples(self._config)

    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """All that determines the folder's content except files, as JSON; first the kind of corpus
        and the number of its format."""

    def fingerprint(self) -> dict[str, Any]:
        """All that determines the folder's content, as JSON: `settings` and the content of files.

        Raises:
          UserError: if a file is missing.
        """
        sources = {split: source.identity() for split, source in self._sources.items()}
        return {**self.settings(), "sources": sources, **self._preparation.identity()}

    @abc.abstractmethod
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
      other_test_fields: fields of the config for the evaluation of other files than the run's.
      config: the family's `DataConfig`.
      preparation: for the next `prepare`.
    """

    unit: ClassVar[str]
    other_test_fields: ClassVar[Mapping[str, Any]] = {}
    config: Any

    def __init__(self) -> None:
        self.preparation = OWN_VOCABULARY
        self._path: Path | None = None
        self._seconds: float | None = None

    @abc.abstractmethod
    def builder(self) -> Builder:
        """The builder of the prepared folder."""

    @property
    def all_splits(self) -> tuple[str, ...]:
        """The splits of the config; the last is the one to report."""
        return SPLITS

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are prepared."""
        return self.preparation.splits or self.all_splits

    @property
    @abc.abstractmethod
    def longest(self) -> int:
        """The length of the longest input for which the model is meant, by the config."""

    @abc.abstractmethod
    def read_vocabulary(self, folder: Path) -> None:
        """Reads the run's own vocabulary, with which a later `prepare` must be compatible.

        Raises:
          UserError: if it is missing or broken.
        """

    @abc.abstractmethod
    def _adopt_vocabulary(self, folder: Path) -> None:
        """Reads the folder's vocabulary; raises UserError if the run's own is incompatible."""

    def _require_usable(self, folder: Path) -> None:  # noqa: B027
        """Raises UserError if the prepared folder exceeds a limit of the config."""

    def corpus(self, split: str) -> Corpus:
        """A split's examples."""
        return Corpus.open(self.path / split)

    def split_sizes(self) -> Mapping[str, tuple[int, Counts]]:
        """The number of examples of each split, and the skipped ones."""
        corpora = {split: self.corpus(split) for split in self.splits}
        return {split: (len(corpus), corpus.meta["dropped"]) for split, corpus in corpora.items()}

    @abc.abstractmethod
    def input_lengths(self, split: str) -> Int[np.ndarray, "n"]:
        """The length of each example's input: of its longest text that is not cut into windows."""

    def prepare(self) -> None:
        """Builds or opens the prepared folder; a second call does nothing.

        Raises:
          UserError: for data that are missing, invalid (data.on_bad_example) or too few, a cache
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

        fingerprint = self._fingerprint(builder)
        if not is_prepared(self.config.cache_dir, fingerprint):
            self._require_separate_files()
        path = prepare(self.config.cache_dir, fingerprint, build)
        self._require_usable(path)
        self._adopt_vocabulary(path)
        self._path = path

    @property
    def is_prepared(self) -> bool:
        """Whether the prepared folder exists already, also without the raw files."""
        try:
            return is_prepared(self.config.cache_dir, self._fingerprint(self.builder()))
        except UserError:
            return False

    def _require_separate_files(self) -> None:
        """Raises UserError if train and an evaluated split have a file in common."""
        for split in SPLITS[1:] if "train" in self.splits else ():
            if shared := self._shared_files("train", split):
                raise UserError(
                    f"data.{split}={getattr(self.config, split)}: {', '.join(shared)} is also in "
                    "data.train; name other files, or hold examples out of train with "
                    f"data.{split}= (nothing)"
                )

    def _shared_files(self, *splits: str) -> list[str]:
        """The names that two splits have in common."""
        names = [set(_named(self.config, split)) for split in splits if split in self.splits]
        return sorted(set.intersection(*names)) if len(names) == len(splits) else []

    @property
    def warnings(self) -> list[str]:
        """What the scores of a run have to be read with, after `prepare`."""
        shared, examples = read_overlaps(self.path).get("test", {}).get("dev", (0, 1))
        if shared != examples and not self._shared_files("dev", "test"):
            return []
        return [
            "dev and test have the same examples, hence the scores of test are those by which the "
            "checkpoint was chosen"
        ]

    def _fingerprint(self, builder: Builder) -> dict[str, Any]:
        """The fingerprint of the prepared folder; if raw files are missing, the one recorded when
        they were last read. Raises UserError if there is neither."""
        with raw_files.recorded(self.config.cache_dir) as files:
            request = self._request(builder)
            try:
                fingerprint = builder.fingerprint()
            except UserError:
                # raw files are missing: the recorded fingerprint, if its folder is prepared
                recalled = files.recall(request)
                if recalled is None:
                    raise
                fingerprint, missing = recalled
                if not is_prepared(self.config.cache_dir, fingerprint):
                    raise
                _log.warning("%s: missing; the corpus was prepared before", ", ".join(missing))
            else:
                # recorded for runs without the raw files
                if files.identities:
                    files.remember(request, fingerprint)
            return fingerprint

    def _request(self, builder: Builder) -> dict[str, Any]:
        """Identifies the corpus by its settings and the names of its files."""
        preparation = self.preparation
        fields = to_mapping(self.config)
        paths = {name: fields.get(name) for name in ("dir", "vectors")}
        paths["vocabulary_from"] = str(preparation.vocabulary_from or "")
        absolute = {
            k: str(as_path(expand_user(path)).absolute()) for k, path in paths.items() if path
        }
        left_out = {*self.config.not_prepared, "inferred"}
        kept = {k: v for k, v in fields.items() if k not in left_out}
        kept = {k: v for k, v in kept.items() if v or k != "stratified"}  # as in versions before
        kept = {k: v for k, v in kept.items() if k not in _READINGS} | self._readings()
        splits = list(preparation.splits)
        return {**builder.settings(), "splits": splits, "fields": {**kept, **absolute}}

    def _readings(self) -> dict[str, Any]:
        """How files are read, if not as in versions without these fields, and if a file's name has
        the ending of a format that it concerns."""
        splits = [
            s for s in SPLITS if self.config.source == "files" and getattr(self.config, s, "")
        ]
        endings = {ending(name) for split in splits for name in self.config.names_of(split)}
        return {
            name: getattr(self.config, name)
            for name, former in former_values(type(self.config)).items()
            if getattr(self.config, name) != former and _READINGS.get(name) in endings
        }

    def report(self) -> None:
        """Logs the number of examples, the time of preparation if they were prepared now, the
        skipped examples, those far longer than any in training, those of several splits, and
        `warnings`."""
        sizes = self.split_sizes()
        _log.info("%s in %s", self._size_line(sum(n for n, _ in sizes.values())), self.path)
        for split, (count, dropped) in sizes.items():
            if reasons := summary(dropped):
                _log.warning("%s: kept %d %s, left out %s", split, count, self.unit, reasons)
            self._report_overlong(split)
        for split, overlaps in read_overlaps(self.path).items():
            for other, (shared, count) in overlaps.items():
                counted = f"{shared:,} of {count:,} {self.unit} of {split}"
                _log.warning("%s are also in %s", counted, other)
        for warning in self.warnings:
            _log.warning("%s", warning)

    def _report_equal(self, split: str, equal: int, count: int) -> None:
        """Logs that many examples have two equal texts."""
        if equal > _MANY_EQUAL * count:
            _log.warning("%s: %d of %d %s have equal sides", split, equal, count, self.unit)

    def _report_overlong(self, split: str) -> None:
        trained = "train" in self.splits
        longest = self.input_lengths("train").max() if trained else self.longest
        lengths = self.input_lengths(split)
        if (overlong := np.flatnonzero(lengths > FAR * longest)).size:
            numbers = ", ".join(map(str, overlong[:_NUMBERS] + 1))
            _log.warning(
                "%s: %d of %d %s have up to %d tokens, where training has at most %d (number %s%s)",
                *(split, overlong.size, lengths.size, self.unit, lengths.max(), longest, numbers),
                ", ..." if overlong.size > _NUMBERS else "",
            )

    def _size_line(self, total: int) -> str:
        """The number of examples, and the time of preparation if they were prepared now."""
        origin = "found" if self._seconds is None else f"in {self._seconds:.0f} s prepared"
        return f"{origin} {total:,} {self.unit}"

    def digests(self) -> dict[str, str]:
        """The SHA-256 of the prepared files, by name, after `prepare`."""
        if not (self.path / checksums.NAME).exists():  # prepared by an earlier version
            checksums.seal(self.path, leave=NOT_CONTENT)
        plans = re.compile(r"\bplans/")
        return {k: v for k, v in checksums.digests(self.path).items() if not plans.search(k)}

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


def _named(config: "SplitsConfig", split: str) -> list[str]:
    """The files that a config names for a split, or the splits of a dataset."""
    if not getattr(config, split, "") or config.source == "generated":
        return []
    names = config.names_of(split)
    if config.source == "tfds":
        return names
    root = Path(local_copy(expand_user(config.dir)))
    paths = (matches(root, name) if is_pattern(root, name) else [root / name] for name in names)
    return [os.path.realpath(path) for path in itertools.chain.from_iterable(paths)]
