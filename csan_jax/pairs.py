"""Where sentence pairs come from: parallel files, one table, or the project's own generator.

A source streams (number, source text, target text), knows each number's place for messages, and
has an identity for the prepared corpus's fingerprint. `Faults` decides what becomes of a bad pair.
"""

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from common_jax.data.corpus import file_identity
from common_jax.errors import UserError
from common_jax.text.files import decode_line, find_file, read_raw_lines

if TYPE_CHECKING:
    from csan_jax.config import DataConfig

Split = Literal["train", "dev", "test"]
Numbered = tuple[int, str, str]

_NAMED = 3  # places named of each kind of fault
_SKIP = "; mend it, or set data.on_bad_example=skip"


class Faults:
    """Pairs that were left out, counted by kind, the first few of each named."""

    def __init__(self, policy: Literal["error", "skip"]):
        self._policy = policy
        self.kinds: dict[str, dict[str, Any]] = {}

    def bad(self, kind: str, place: str) -> None:
        """A pair that is no pair.

        Raises:
          UserError: under the policy "error".
        """
        if self._policy == "error":
            raise UserError(f"{place}: {kind}{_SKIP}")
        self.drop(kind, place)

    def drop(self, kind: str, place: str) -> None:
        """A pair that is left out under either policy."""
        fault = self.kinds.setdefault(kind, {"count": 0, "first": []})
        fault["count"] += 1
        if len(fault["first"]) < _NAMED:
            fault["first"].append(place)


class Source(Protocol):
    """Sentence pairs that can be read several times."""

    def identity(self) -> Any:
        """What decides the pairs, as JSON."""

    def place(self, number: int) -> str:
        """Where a pair stands, for a message."""

    def read(self, faults: Faults) -> Iterator[Numbered]:
        """Streams the good pairs, and reports the bad ones to `faults`.

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

    def read(self, faults: Faults) -> Iterator[Numbered]:
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
                faults.bad("not UTF-8", str(error).partition(": not UTF-8")[0])
                continue
            if pair[0].strip() and pair[1].strip():
                yield number, *pair
            else:
                file = self.target if pair[0].strip() else self.source
                faults.bad(_empty(*pair), f"{file}:{number}")

    def _unequal(self, lines: int, ended: Path) -> UserError:
        other = self.target if ended == self.source else self.source
        more = sum(1 for _ in read_raw_lines(other))
        return UserError(
            f"{ended}:{lines}: ends after {lines} lines, but {other} has {more}; "
            "parallel files need a line for each line"
        )


@dataclasses.dataclass(frozen=True)
class Table:
    """One file with tab-separated columns, two of which are the sides; others are ignored.

    Attributes:
      columns: 1-based numbers of the source's and the target's.
    """

    path: Path
    columns: tuple[int, int]

    def identity(self) -> Any:
        return [file_identity(self.path), list(self.columns)]

    def place(self, number: int) -> str:
        return f"{self.path}:{number}"

    def read(self, faults: Faults) -> Iterator[Numbered]:
        first, second = self.columns
        for number, line in enumerate(read_raw_lines(self.path), start=1):
            try:
                cells = decode_line(line, self.path, number).split("\t")
            except UserError:
                faults.bad("not UTF-8", self.place(number))
                continue
            if len(cells) < max(self.columns):
                faults.bad(f"fewer than {max(self.columns)} columns", self.place(number))
                continue
            source, target = cells[first - 1], cells[second - 1]
            if source.strip() and target.strip():
                yield number, source, target
            else:
                faults.bad(_empty(source, target), self.place(number))


@dataclasses.dataclass(frozen=True)
class Generated:
    """Pairs that `csan_jax.generate` makes.

    Attributes:
      key: the config key that says how many.
    """

    count: int
    seed: int
    split: Split
    key: str

    def identity(self) -> Any:
        folder = Path(__file__).parent
        code = [file_identity(folder / f"{n}.py") for n in ("generate", "carriers", "phrases")]
        return {"code": code, "count": self.count, "seed": self.seed, "split": self.split}

    def place(self, number: int) -> str:
        return f"generated {self.split} pair {number}"

    def read(self, faults: Faults) -> Iterator[Numbered]:
        from csan_jax.generate import generate

        try:
            pairs = generate(self.count, self.seed, self.split)
        except ValueError as error:
            raise UserError(f"{self.key}={self.count}: {error}") from error
        for number, (source, target) in enumerate(pairs, start=1):
            yield number, source, target


def held_out_splits(config: "DataConfig") -> list[Split]:
    """The splits that have no source of their own, but are taken out of train."""
    splits: list[Split] = ["dev", "test"]
    return [s for s in splits if config.source == "files" and not getattr(config, s)]


def source_of(config: "DataConfig", split: Split) -> Source:
    """The pairs of a split that has its own source.

    Raises:
      UserError: a folder or file that is not there.
    """
    if config.source == "generated":
        if split == "train":
            return Generated(config.examples, config.seed, split, "data.examples")
        return Generated(config.heldout, config.seed, split, "data.heldout")
    name = getattr(config, split)
    folder = Path(config.dir).expanduser()
    if not folder.is_dir():
        raise UserError(f"data.dir={config.dir}: no such folder")
    if not name:
        raise UserError(f"data.{split}: name its files")
    if name.endswith((".tsv", ".tsv.gz")):
        first, second = map(int, config.tsv_columns.split(","))
        return Table(find_file(folder / name), (first, second))
    return Parallel(
        find_file(folder / f"{name}.{config.source_language}"),
        find_file(folder / f"{name}.{config.target_language}"),
    )


def _empty(source: str, target: str) -> str:
    if source.strip() or target.strip():
        return "empty target" if source.strip() else "empty source"
    return "both sides empty"
