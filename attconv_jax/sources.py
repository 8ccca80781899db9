"""Where labelled texts come from: files, TensorFlow Datasets, or the project's own generator.

Pairs are SNLI's JSON lines, or tables of label, premise and hypothesis; reviews are Yelp's JSON
lines, or tables of label and text; sentences to be ranked come of files of SQuAD's form
(`attconv_jax.selection`). A table is parted by tabs, or by commas where its name ends in .csv.
"""

import csv
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attconv_jax.selection import LABELS, candidates
from common_jax.data.corpus import file_identity
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.faults import Faults
from common_jax.text.files import decode_line, find_file, read_raw_lines
from common_jax.text.json_files import Node, read_json_lines
from common_jax.text.squad import read_squad

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")

# The fields of JSON lines and of datasets' rows: the label's, then those of the texts.
_JSON_FIELDS = {"pairs": ("gold_label", "sentence1", "sentence2"), "texts": ("stars", "text")}
_DATASET_FIELDS = {
    "pairs": ("label", "premise", "hypothesis"),
    "texts": ("label", "text"),
    "ranking": ("label", "question", "sentence"),
}


@dataclasses.dataclass(frozen=True)
class Example:
    """Texts and their label.

    Attributes:
      texts: a text, or a pair of them.
      group: what must not be in two splits: a premise, an article, the text itself.
      question: the number of the question that a sentence is ranked for; examples of one question
        follow one another. -1 where there is none.
      place: where it stands, for a message.
    """

    texts: tuple[str, ...]
    label: str
    group: str
    place: str
    question: int = -1


class Source(Protocol):
    """A split's examples."""

    @property
    def place(self) -> str:
        """What messages call it."""

    def identity(self) -> Any:
        """What decides its content, as JSON."""

    def read(self, faults: Faults) -> Iterator[Example]:
        """Its examples; what is wrong with it goes to `faults`."""


@dataclasses.dataclass(frozen=True)
class File:
    """A file of labelled texts or pairs.

    Attributes:
      form: "pairs" or "texts".
    """

    path: Path
    form: Literal["pairs", "texts"]

    @property
    def place(self) -> str:
        return str(self.path)

    def identity(self) -> Any:
        return [file_identity(self.path), self.form]

    def read(self, faults: Faults) -> Iterator[Example]:
        kind = self.path.name.removesuffix(".gz").rpartition(".")[2]
        rows = self._json_lines if kind in ("json", "jsonl") else self._table
        for place, (label, *texts) in rows(faults, "," if kind == "csv" else "\t"):
            yield Example(tuple(texts), label, texts[0], place)

    def _json_lines(self, faults: Faults, _: str) -> Iterator[tuple[str, list[str]]]:
        for node in read_json_lines(self.path, faults):
            if (row := faults.attempt(_fields, node, _JSON_FIELDS[self.form])) is not None:
                yield node.place, row

    def _table(self, faults: Faults, separator: str) -> Iterator[tuple[str, list[str]]]:
        columns = len(_JSON_FIELDS[self.form])
        for number, row in self._rows(separator, faults):
            if len(row) < columns:
                kind = f"{len(row)} columns where {columns} are needed"
                faults.bad(kind, f"{self.path}:{number}")
            else:
                yield f"{self.path}:{number}", row[:columns]

    def _rows(self, separator: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
        def lines() -> Iterator[str]:
            for number, line in enumerate(read_raw_lines(self.path), start=1):
                yield faults.attempt(decode_line, line, self.path, number) or ""

        if separator == "\t":
            rows = ((number, line.split("\t")) for number, line in enumerate(lines(), start=1))
        else:  # quoted, and then over several lines
            reader = csv.reader((f"{line}\n" for line in lines()), strict=True)
            rows = _numbered(reader, self.path)
        return ((number, row) for number, row in rows if any(map(str.strip, row)))


def _numbered(reader: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(f"{path}:{number}: not CSV ({error})") from error


def _fields(node: Node, names: tuple[str, ...]) -> list[str]:
    """The fields of a JSON object, the first as a string if it is a whole number of stars."""
    label, *texts = names
    value = node.value.get(label) if isinstance(node.value, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    given = str(value) if type(value) is int else node.get(label, str)
    return [given, *(node.get(text, str) for text in texts)]


@dataclasses.dataclass(frozen=True)
class Selection:
    """The sentences of a file of SQuAD's form, to be ranked for its questions."""

    path: Path

    @property
    def place(self) -> str:
        return str(self.path)

    def identity(self) -> Any:
        return [file_identity(self.path), "ranking"]

    def read(self, faults: Faults) -> Iterator[Example]:
        squad = read_squad(self.path, faults)
        for found in candidates(squad):
            label = LABELS[found.answers]
            texts = (squad.questions[found.question].text, found.sentence)
            place = f"{self.path}: question {squad.questions[found.question].id}"
            yield Example(texts, label, found.article, place, found.question)


@dataclasses.dataclass(frozen=True)
class Records:
    """A split of a dataset of TensorFlow Datasets.

    Attributes:
      key: the config key that named the split.
      labels: in the order of the dataset's numbers for them.
    """

    dataset: Dataset
    split: str
    key: str
    form: Literal["pairs", "texts", "ranking"]
    labels: tuple[str, ...]

    @property
    def place(self) -> str:
        return f"{self.dataset.name} {self.split}"

    def identity(self) -> Any:
        return [self.dataset.identity(self.split), self.form, list(self.labels)]

    def read(self, faults: Faults) -> Iterator[Example]:
        label, *names = _DATASET_FIELDS[self.form]
        questions: dict[bytes, int] = {}
        for number, row in enumerate(self.dataset.source(self.split, self.key), start=1):
            place = f"{self.place}:{number}"
            texts = tuple(row[name].decode() for name in names)
            given = "-" if row[label] < 0 else self.labels[row[label]]
            group, question = texts[0], -1
            if self.form == "ranking":
                group = row["article"].decode()
                question = questions.setdefault(row["id"], len(questions))
            yield Example(texts, given, group, place, question)


@dataclasses.dataclass(frozen=True)
class Generated:
    """Pairs that `attconv_jax.generate` makes."""

    count: int
    seed: int
    split: Split

    @property
    def place(self) -> str:
        return f"generated {self.split}"

    def identity(self) -> Any:
        code = file_identity(Path(__file__).parent / "generate.py")
        return {"code": code, "count": self.count, "seed": self.seed, "split": self.split}

    def read(self, faults: Faults) -> Iterator[Example]:
        from attconv_jax.generate import generate

        for number, (premise, hypothesis, label) in enumerate(
            generate(self.count, self.seed, self.split), start=1
        ):
            yield Example((premise, hypothesis), label, premise, f"{self.place}:{number}")


@dataclasses.dataclass(frozen=True)
class Joined:
    """Several sources, one after the other."""

    sources: tuple[Source, ...]

    @property
    def place(self) -> str:
        return ", ".join(source.place for source in self.sources)

    def identity(self) -> Any:
        return [source.identity() for source in self.sources]

    def read(self, faults: Faults) -> Iterator[Example]:
        questions = 0
        for source in self.sources:
            last = -1
            for example in source.read(faults):
                last = example.question
                moved = -1 if last < 0 else questions + last
                yield dataclasses.replace(example, question=moved)
            questions += last + 1


def held_out_splits(config: "DataConfig") -> list[Split]:
    """The splits that have no source of their own, but are taken out of train."""
    return [s for s in SPLITS[1:] if config.source != "generated" and not getattr(config, s)]


def source_of(config: "DataConfig", split: Split) -> Source:
    """The examples of a split that has its own source.

    Raises:
      UserError: a folder, file or dataset that is not there.
    """
    if config.source == "generated":
        count = config.examples if split == "train" else config.heldout
        return Generated(count, config.seed, split)
    names = getattr(config, split)
    if config.source == "tfds":
        dataset = Dataset(config.tfds, config.dir)
        return Records(dataset, names, f"data.{split}", config.form, config.names)
    folder = Path(config.dir).expanduser()
    if not folder.is_dir():
        raise UserError(f"data.dir={config.dir}: no such folder")
    files = [find_file(folder / name.strip()) for name in names.split(",")]
    sources = [Selection(f) if config.form == "ranking" else File(f, config.form) for f in files]
    return sources[0] if len(sources) == 1 else Joined(tuple(sources))
