"""Sources of examples: files, TensorFlow Datasets or a generator, alone or joined.

They are generic in the type of content: an iterator of examples, or a complete split if questions
share passages.
"""

import dataclasses
import itertools
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from common_jax.bad_examples import BadExamples, Counts, summary
from common_jax.data.corpus import Writer, file_identity
from common_jax.data.prepared import SPLITS, Split
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.io.files import find_folder

if TYPE_CHECKING:
    from common_jax.config import SplitsConfig

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Source(Protocol[T_co]):
    """Examples of one split; they can be read several times."""

    @property
    def place(self) -> str:
        """Its location for messages."""

    def identity(self) -> Any:
        """Identifies its content, as JSON."""

    def read(self, bad_examples: BadExamples) -> T_co:
        """Its content, without the examples that `bad_examples` skips."""


@dataclasses.dataclass(frozen=True)
class FileSource:
    """A single file; a family's class adds `read`."""

    path: Path

    @property
    def place(self) -> str:
        return str(self.path)

    def identity(self) -> Any:
        return file_identity(self.path)


@dataclasses.dataclass(frozen=True)
class Sources(Generic[T]):
    """Several sources."""

    sources: tuple[Source[T], ...]

    @property
    def place(self) -> str:
        return ", ".join(source.place for source in self.sources)

    def identity(self) -> Any:
        return [source.identity() for source in self.sources]


@dataclasses.dataclass(frozen=True)
class Joined(Sources[Iterator[T]]):
    """Several sources, one after the other."""

    def read(self, bad_examples: BadExamples) -> Iterator[T]:
        return itertools.chain.from_iterable(s.read(bad_examples) for s in self.sources)


@dataclasses.dataclass(frozen=True)
class Records:
    """A split of a dataset of TensorFlow Datasets; a family's class adds `read`.

    Attributes:
      split: as in "train" or "train[:1000]".
      key: the config key of the split.
    """

    dataset: Dataset
    split: str
    key: str

    @property
    def place(self) -> str:
        return f"{self.dataset.name} {self.split}"

    def identity(self) -> Any:
        self.dataset.source(self.split, self.key)  # raises if there is no such split
        return self.dataset.identity(self.split)

    def rows(
        self, texts: Sequence[str], bad_examples: BadExamples, labels: Sequence[str] = ()
    ) -> Iterator[tuple[str, list[str], list[int]]]:
        """Streams the location, the named texts and the named labels of each record."""
        rows = self.dataset.stream(self.split, self.key, (*texts, *labels))
        for number, row in enumerate(rows, start=1):
            location = f"{self.place}:{number}"
            decoded = decode(((cell, location) for cell in row[: len(texts)]), bad_examples)
            if decoded is not None:
                yield location, decoded, list(row[len(texts) :])


@dataclasses.dataclass(frozen=True)
class Generator(Generic[T_co]):
    """A family's generator of a corpus.

    Attributes:
      name: "package.module:function", imported when it is called: (count, seed, split) -> `count`
        items of a split; raises ValueError for an invalid count.
      content: of the items and their location for messages.
      code: identity of the output (`common_jax.data.corpus.recorded_identity`).
    """

    name: str
    content: Callable[[Any, str], T_co]
    code: Any


@dataclasses.dataclass(frozen=True)
class Generated(Generic[T_co]):
    """One split of a generated corpus."""

    generator: Generator[T_co]
    count: int
    seed: int
    split: Split

    @property
    def place(self) -> str:
        return f"generated {self.split}"

    def identity(self) -> Any:
        code = self.generator.code
        return {"code": code, "count": self.count, "seed": self.seed, "split": self.split}

    def read(self, bad_examples: BadExamples) -> T_co:
        generate = pkgutil.resolve_name(self.generator.name)
        try:
            items = generate(self.count, self.seed, self.split)
        except ValueError as error:
            key = "examples" if self.split == "train" else "holdout_size"
            raise UserError(f"data.{key}={self.count}: {error}") from error
        return self.generator.content(items, self.place)


def find_source(
    config: "SplitsConfig",
    split: Split,
    *,
    generator: Generator[T],
    records: Callable[[Dataset, str, str], Source[T]],
    files: Callable[[Path, str], Source[T]],
) -> Source[T]:
    """The source of a split that is not held out, by `data.source`.

    Args:
      config: the family's `DataConfig`.
      records: makes a source from a dataset, the name of its split, and the split's config key.
      files: makes a source from a folder and the config field with the names of its files.

    Raises:
      UserError: if a folder, file, dataset or split does not exist.
    """
    if config.source == "generated":
        count = config.examples if split == "train" else config.holdout_size
        return Generated(generator, count, config.seed, split)
    names = getattr(config, split)
    if config.source == "tfds":
        return records(Dataset(config.tfds, config.dir), names, f"data.{split}")
    return files(find_folder(config.dir, "data.dir"), names)


def held_out_splits(config: "SplitsConfig") -> list[Split]:
    """The splits without a source of their own, which are held out of train."""
    return [s for s in SPLITS[1:] if config.source != "generated" and not getattr(config, s)]


def decode(cells: Iterable[tuple[bytes, str]], bad_examples: BadExamples) -> list[str] | None:
    """The texts of an example; None, and rejected, if one is not UTF-8."""
    texts = []
    for cell, location in cells:
        try:
            texts.append(cell.decode())
        except UnicodeDecodeError:
            bad_examples.reject("not UTF-8", location)
            return None
    return texts


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
