"""Sources of labelled texts: files, TensorFlow Datasets, or the generator.

Pairs are SNLI's JSON lines, or tables of label, premise and hypothesis; reviews are Yelp's JSON
lines, or tables of stars and text; ranked sentences are from files of SQuAD's format
(`attconv_jax.data.selection`). The columns of a table are separated by tabs, or by commas in .csv
files, where a backslash and an n are a line break, as in yelp_review_full.
"""

import csv
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attconv_jax.data import LABELS, selection, synthetic, synthetic_reviews
from common_jax.bad_examples import BadExamples
from common_jax.data import sources
from common_jax.data.corpus import recorded_identity
from common_jax.data.prepared import Split
from common_jax.data.sources import Generator, find_source, join
from common_jax.errors import UserError
from common_jax.inputs import Annotations
from common_jax.io.files import decode_line, find_file, names_in, read_raw_lines
from common_jax.io.json_files import Node, read_json_lines
from common_jax.text.squad import read_squad

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig

UNLABELLED = "-"  # SNLI's label if annotators disagreed; -1 in TensorFlow Datasets

# The fields of JSON lines and of datasets' rows: label, texts; for rankings also the article and
# the question's id.
_JSON_FIELDS = {"pairs": ("gold_label", "sentence1", "sentence2"), "texts": ("stars", "text")}
_DATASET_FIELDS = {
    "pairs": ("label", "premise", "hypothesis"),
    "texts": ("label", "text"),
    "ranking": ("label", "question", "sentence", "article", "id"),
}


_Row = tuple[str, list[str], tuple[Annotations, ...]]  # place, fields, annotations of each text


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """Texts and their label.

    Attributes:
      texts: one or two texts.
      group: the premise, article or text, which must not occur in two splits.
      place: location for messages.
      question: the id of the question for which a sentence is ranked; "" without a ranking.
      annotations: those of each text, if they are read.
    """

    texts: tuple[str, ...]
    label: str
    group: str
    place: str
    question: str = ""
    annotations: tuple[Annotations, ...] = ()


Source = sources.Source[Iterator[Example]]


@dataclasses.dataclass(frozen=True)
class File(sources.FileSource):
    """A file of labelled texts or pairs.

    Attributes:
      format: "pairs" or "texts".
      annotated: whether to read the annotations of JSON lines: for the text "sentence1", the fields
        "sentence1_NAME", by NAME, such as SNLI's "sentence1_binary_parse".
    """

    format: Literal["pairs", "texts"]
    annotated: bool = False

    def identity(self) -> Any:
        return [super().identity(), self._kind, self.format]

    @property
    def _kind(self) -> str:
        return self.path.name.removesuffix(".gz").rpartition(".")[2]

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        rows = self._json_lines if self._kind in ("json", "jsonl") else self._table
        for place, (label, *texts), annotations in rows(bad_examples):
            yield Example(tuple(texts), label, texts[0], place, annotations=annotations)

    def _json_lines(self, bad_examples: BadExamples) -> Iterator[_Row]:
        fields = _JSON_FIELDS[self.format]
        for node in read_json_lines(self.path, bad_examples):
            if row := bad_examples.parse(_fields, node, *fields):
                texts = fields[1:] if self.annotated else ()
                yield node.place, row, tuple(_annotations(node.value, text) for text in texts)

    def _table(self, bad_examples: BadExamples) -> Iterator[_Row]:
        columns = len(_JSON_FIELDS[self.format])
        for number, row in self._rows(bad_examples):
            place = f"{self.path}:{number}"
            if len(row) >= columns:
                yield place, row[:columns], ()
            elif any(map(str.strip, row)):  # not a blank line
                bad_examples.reject(f"{len(row)} columns where {columns} are needed", place)

    def _rows(self, bad_examples: BadExamples) -> Iterator[tuple[int, list[str]]]:
        """The columns of each line, or of each row of CSV, which may have several lines."""
        numbered = enumerate(read_raw_lines(self.path), start=1)
        decode = lambda line, number: bad_examples.parse(decode_line, line, self.path, number)
        lines = (decode(line, number) or "" for number, line in numbered)
        if self._kind != "csv":
            yield from ((number, line.split("\t")) for number, line in enumerate(lines, start=1))
            return
        reader = csv.reader((f"{line}\n" for line in lines), strict=True)
        while True:
            number = reader.line_num + 1
            try:
                yield number, [column.replace("\\n", "\n") for column in next(reader)]
            except StopIteration:
                return
            except csv.Error as error:  # the reader continues with the next line
                bad_examples.reject(f"not CSV ({error})", f"{self.path}:{number}")


def _fields(node: Node, label: str, *texts: str) -> list[str]:
    """The fields of a JSON object; the label may be a number, such as stars: 4 or 4.0."""
    value = node.value.get(label) if isinstance(node.value, dict) else None
    number = str(value).removesuffix(".0") if type(value) in (int, float) else ""
    return [number or node.get(label, str), *(node.get(text, str) for text in texts)]


def _annotations(fields: Mapping[str, Any], text: str) -> Annotations:
    """The annotations of a text, by name without the text's prefix."""
    start = f"{text}_"
    return {
        name.removeprefix(start): value
        for name, value in fields.items()
        if name.startswith(start) and isinstance(value, str)
    }


class Selection(sources.FileSource):
    """The questions of a file of SQuAD's format, each with all sentences of its passage."""

    def identity(self) -> Any:
        return [super().identity(), selection.IDENTITY]

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        squad = read_squad(self.path, bad_examples)
        for question, sentence, right in selection.candidates(squad):
            label, group = LABELS[right], squad.articles[question.context]
            place = f"{self.path}: question {question.id}"
            yield Example((question.text, sentence), label, group, place, question.id)


@dataclasses.dataclass(frozen=True)
class Records(sources.Records):
    """A split of a dataset of TensorFlow Datasets."""

    format: Literal["pairs", "texts", "ranking"]

    def __post_init__(self):
        label, *texts = _DATASET_FIELDS[self.format]
        missing = [name for name in texts if name not in self.dataset.texts]
        if missing or label not in self.dataset.labels:
            raise UserError(
                f"data.tfds={self.dataset.name}: not of data.format={self.format}, which needs the "
                f"label {label!r} and the texts {', '.join(texts)}; it has "
                f"{', '.join(self.dataset.labels) or 'no label'} and the texts "
                f"{', '.join(self.dataset.texts) or '(none)'}"
            )

    def identity(self) -> Any:
        return [super().identity(), self.format]

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        name, *texts = _DATASET_FIELDS[self.format]
        labels = [*self.dataset.labels[name], UNLABELLED]  # -1 is the last
        for place, values, (label,) in self.rows(texts, bad_examples, [name]):
            if self.format == "ranking":
                question, sentence, article, number = values
                yield Example((question, sentence), labels[label], article, place, number)
            else:
                yield Example(tuple(values), labels[label], values[0], place)


def _generate_pairs(count: int, seed: int, split: Split) -> Iterator[Example]:
    pairs = synthetic.generate(count, seed, split)
    for number, (premise, hypothesis, label) in enumerate(pairs, start=1):
        yield Example((premise, hypothesis), label, premise, f"generated {split}:{number}")


def _generate_reviews(count: int, seed: int, split: Split) -> Iterator[Example]:
    reviews = synthetic_reviews.generate(count, seed, split)
    for number, (review, stars) in enumerate(reviews, start=1):
        yield Example((review,), str(stars), review, f"generated {split}:{number}")


_GENERATORS = {
    "pairs": Generator(
        _generate_pairs,
        recorded_identity(
            11769, "ea21b1761acd23fd8597945418f0e0e04ea8c9ea7ae5b867752d27fa05f15b5c"
        ),
    ),
    "texts": Generator(
        _generate_reviews,
        recorded_identity(3630, "e62bf59bc5a91acad226d4e692a3696421cf1597275ea22562fe4bda7a6b282e"),
    ),
}


def source_of(config: "DataConfig", split: Split, annotated: bool = False) -> Source:
    """The source of a split that is not held out.

    Args:
      annotated: whether to read annotations of texts.

    Raises:
      UserError: if a folder, file, dataset or split does not exist, or the dataset lacks features
        that `data.format` needs.
    """

    def file(path: Path) -> Source:
        if config.format == "ranking":
            return Selection(path)
        return File(path, config.format, annotated)

    return find_source(
        config,
        split,
        generator=_GENERATORS["texts" if config.texts == 1 else "pairs"],
        records=lambda dataset, name, key: Records(dataset, name, key, config.format),
        files=lambda folder, names: join(
            file(find_file(folder / name)) for name in names_in(names, f"data.{split}")
        ),
    )
