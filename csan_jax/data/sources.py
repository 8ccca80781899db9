"""Where sentence pairs come from: files, TensorFlow Datasets, or the project's own generator.

A source streams (number, source text, target text), knows each number's place for messages, and
has an identity for the prepared corpus's fingerprint. `BadExamples` says what is done with a bad
pair.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from common_jax.bad_examples import BadExamples
from common_jax.data.corpus import file_identity, recorded_identity
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.io.files import decode_line, find_file, find_folder, names_in, read_raw_lines
from csan_jax.data.moses import undo_escapes

if TYPE_CHECKING:
    from csan_jax.config import DataConfig

Split = Literal["train", "dev", "test"]
Numbered = tuple[int, str, str]


# Of `csan_jax.data.synthetic` and what it uses.
_GENERATED = [
    recorded_identity(6720, "0096b095b33dcc6265019b79839d9cdf98bf18b15fa33bac2161588b66267da6"),
    recorded_identity(12044, "9aec64e0e2af0e76f4191d588ec15a09585d56a3502cacfc179a3ca591df2a64"),
    recorded_identity(8499, "937b6747ec2619bd9f6729d221cfde618ffa9dbe39fb08951be5b384e28f90fd"),
]


@runtime_checkable
class Source(Protocol):
    """Sentence pairs that can be read several times."""

    def identity(self) -> Any:
        """What decides the pairs, as JSON."""

    def place(self, number: int) -> str:
        """Where a pair stands, for a message."""

    def read(self, bad_examples: BadExamples) -> Iterator[Numbered]:
        """Streams the good pairs, and reports the bad ones to `bad_examples`.

        Neither side is blank; the text is as it stands in the file.
        """


@dataclasses.dataclass(frozen=True)
class Parallel:
    """Two files, line by line each other's translation."""

    source: Path
    target: Path

    def identity(self) -> Any:
        return [file_identity(self.source), file_identity(self.target)]

    def place(self, number: int) -> str:
        return f"{self.source}:{number}"

    def read(self, bad_examples: BadExamples) -> Iterator[Numbered]:
        sides = read_raw_lines(self.source), read_raw_lines(self.target)
        for number, (source, target) in enumerate(itertools.zip_longest(*sides), start=1):
            if source is None or target is None:
                raise self._unequal(
                    number - 1, ended=self.source if source is None else self.target
                )
            try:
                pair = (
                    decode_line(source, self.source, number),
                    decode_line(target, self.target, number),
                )
            except UserError as error:
                bad_examples.reject("not UTF-8", str(error).partition(": not UTF-8")[0])
                continue
            if pair[0].strip() and pair[1].strip():
                yield number, *pair
            else:
                file = self.target if pair[0].strip() else self.source
                bad_examples.reject(_empty(*pair), f"{file}:{number}")

    def _unequal(self, lines: int, ended: Path) -> UserError:
        other = self.target if ended == self.source else self.source
        more = sum(1 for _ in read_raw_lines(other))
        return UserError(
            f"{ended}:{lines}: ends after {lines} lines, but {other} has {more}; "
            "parallel files need a line for each line"
        )


@dataclasses.dataclass(frozen=True)
class Table:
    """One file with columns, two of which are the sides; others are ignored.

    Attributes:
      columns: 1-based numbers of the source's and the target's; -1 is a line's last.
      separator: what is between columns.
    """

    path: Path
    columns: tuple[int, int]
    separator: str = "\t"

    def identity(self) -> Any:
        return [file_identity(self.path), list(self.columns), self.separator]

    def place(self, number: int) -> str:
        return f"{self.path}:{number}"

    def read(self, bad_examples: BadExamples) -> Iterator[Numbered]:
        return _sift(self._rows(), self.place, bad_examples)

    def _rows(self) -> Iterator[tuple[str, str] | str]:
        needed = max(map(abs, self.columns))
        first, second = (column - (column > 0) for column in self.columns)
        for number, line in enumerate(read_raw_lines(self.path), start=1):
            try:
                cells = decode_line(line, self.path, number).split(self.separator)
            except UserError:
                yield "not UTF-8"
                continue
            enough = len(cells) >= needed
            yield (cells[first], cells[second]) if enough else f"fewer than {needed} columns"


@dataclasses.dataclass(frozen=True)
class Records:
    """A split of a dataset of TensorFlow Datasets, two of whose texts are the sides.

    Attributes:
      split: as in "train" or "train[:1000]".
      key: the config key that named the split.
      languages: the source's and the target's, names of the dataset's features.
    """

    dataset: Dataset
    split: str
    key: str
    languages: tuple[str, str]

    def __post_init__(self):
        for side, language in zip(("source", "target"), self.languages, strict=True):
            if language not in self.dataset.texts:
                raise UserError(
                    f"data.{side}_language={language}: {self.dataset.name} has the texts "
                    f"{', '.join(self.dataset.texts) or 'of none'}"
                )
        self.dataset.source(self.split, self.key)

    def identity(self) -> Any:
        return [self.dataset.identity(self.split), list(self.languages)]

    def place(self, number: int) -> str:
        return f"{self.dataset.name} {self.split}:{number}"

    def read(self, bad_examples: BadExamples) -> Iterator[Numbered]:
        return _sift(self._rows(), self.place, bad_examples)

    def _rows(self) -> Iterator[tuple[str, str] | str]:
        for texts in self.dataset.stream(self.split, self.key, self.languages):
            try:  # a line break would be two lines of the raw text that evaluation keeps
                source, target = (text.decode().replace("\n", " ") for text in texts)
                yield source, target
            except UnicodeDecodeError:
                yield "not UTF-8"


@dataclasses.dataclass(frozen=True)
class Generated:
    """Pairs that `csan_jax.data.synthetic` makes.

    Attributes:
      key: the config key that says how many.
    """

    count: int
    seed: int
    split: Split
    key: str

    def identity(self) -> Any:
        return {"code": _GENERATED, "count": self.count, "seed": self.seed, "split": self.split}

    def place(self, number: int) -> str:
        return f"generated {self.split} pair {number}"

    def read(self, bad_examples: BadExamples) -> Iterator[Numbered]:
        from csan_jax.data.synthetic import generate

        try:
            pairs = generate(self.count, self.seed, self.split)
        except ValueError as error:
            raise UserError(f"{self.key}={self.count}: {error}") from error
        for number, (source, target) in enumerate(pairs, start=1):
            yield number, source, target


@dataclasses.dataclass(frozen=True)
class Joined:
    """Several sources, one after the other."""

    sources: tuple[Source, ...]

    def identity(self) -> Any:
        return [source.identity() for source in self.sources]

    def place(self, number: int) -> str:
        number, at = divmod(number - 1, len(self.sources))
        return self.sources[at].place(number + 1)

    def read(self, bad_examples: BadExamples) -> Iterator[Numbered]:
        for at, source in enumerate(self.sources):
            for number, first, second in source.read(bad_examples):
                yield (number - 1) * len(self.sources) + at + 1, first, second


@dataclasses.dataclass(frozen=True)
class Unescaped:
    """Another source's pairs with Moses's escapes undone."""

    source: Source

    def identity(self) -> Any:
        return {"moses_escapes": "undo", "of": self.source.identity()}

    def place(self, number: int) -> str:
        return self.source.place(number)

    def read(self, bad_examples: BadExamples) -> Iterator[Numbered]:
        for number, source, target in self.source.read(bad_examples):
            yield number, undo_escapes(source), undo_escapes(target)


def held_out_splits(config: "DataConfig") -> list[Split]:
    """The splits that have no source of their own, but are taken out of train."""
    splits: list[Split] = ["dev", "test"]
    return [s for s in splits if config.source != "generated" and not getattr(config, s)]


def source_of(config: "DataConfig", split: Split) -> Source:
    """The pairs of a split that has its own source.

    Raises:
      UserError: a folder, file, dataset or split of one that is not there.
    """
    if config.source == "generated":
        if split == "train":
            return Generated(config.examples, config.seed, split, "data.examples")
        return Generated(config.holdout_size, config.seed, split, "data.holdout_size")
    if config.source == "tfds":
        languages = config.source_language, config.target_language
        dataset = Dataset(config.tfds, config.dir)
        source: Source = Records(dataset, getattr(config, split), f"data.{split}", languages)
    else:
        source = _files(config, split)
    return Unescaped(source) if config.moses_escapes == "undo" else source


def _files(config: "DataConfig", split: Split) -> Source:
    folder = find_folder(config.dir, "data.dir")
    names = names_in(getattr(config, split), f"data.{split}")
    sources = tuple(_file(config, folder, name) for name in names)
    return sources[0] if len(sources) == 1 else Joined(sources)


def _file(config: "DataConfig", folder: Path, name: str) -> Source:
    if config.separator != "\t" or name.endswith((".tsv", ".tsv.gz")):
        first, second = map(int, config.tsv_columns.split(","))
        return Table(find_file(folder / name), (first, second), config.separator)
    return Parallel(
        find_file(folder / f"{name}.{config.source_language}"),
        find_file(folder / f"{name}.{config.target_language}"),
    )


def _sift(
    rows: Iterator[tuple[str, str] | str], place: Callable[[int], str], bad_examples: BadExamples
) -> Iterator[Numbered]:
    """The good ones of rows that are a pair, or else say what is wrong with them."""
    for number, row in enumerate(rows, start=1):
        if isinstance(row, str):
            bad_examples.reject(row, place(number))
        elif row[0].strip() and row[1].strip():
            yield number, *row
        else:
            bad_examples.reject(_empty(*row), place(number))


def _empty(source: str, target: str) -> str:
    if source.strip() or target.strip():
        return "empty target" if source.strip() else "empty source"
    return "both sides empty"
