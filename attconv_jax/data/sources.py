"""Sources of labelled texts: files, TensorFlow Datasets, or the generator.

Pairs are SNLI's JSON lines, or tables of label, premise and hypothesis; reviews are Yelp's JSON
lines, or tables of stars and text; ranked sentences are from files of SQuAD's format
(`attconv_jax.data.selection`). The columns of a table (`common_jax.data.tables`) are separated by
tabs; .csv files are CSV, where a backslash and an n are a line break, as in yelp_review_full.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attconv_jax.data import LABELS, selection, synthetic, synthetic_reviews
from common_jax.bad_examples import BadExamples
from common_jax.data import sources, tables
from common_jax.data.corpus import recorded_identity
from common_jax.data.prepared import Split
from common_jax.data.sources import Generator, find_source, join
from common_jax.errors import UserError
from common_jax.inputs import Annotations
from common_jax.io.files import find_file, names_in
from common_jax.io.json_files import Node, read_json_lines
from common_jax.text.cleaning import clean
from common_jax.text.squad import read_squad

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig

UNLABELLED = "-"  # SNLI's label if annotators disagreed; -1 in TensorFlow Datasets

# The fields of JSON lines and of datasets' rows: label, texts; for rankings also the article and
# the question's id.
_JSON_FIELDS = {"pairs": ("gold_label", "sentence1", "sentence2"), "texts": ("stars", "text")}
# The names of a table's columns in known headers, by field.
_HEADERS = {
    "label": ("label", "gold_label", "stars", "class", "rating", "sentiment"),
    "text": ("text", "review", "sentence"),
    "first": ("first", "premise", "sentence1", "text1"),
    "second": ("second", "hypothesis", "sentence2", "text2"),
}
_DATASET_FIELDS = {
    "pairs": ("label", "premise", "hypothesis"),
    "texts": ("label", "text"),
    "ranking": ("label", "question", "sentence", "article", "id"),
}


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
class JsonLines(sources.FileSource):
    """A file of labelled texts or pairs, a JSON object a line.

    Attributes:
      format: "pairs" or "texts".
      names: the fields of an object, the label first.
      annotated: whether to read the annotations: for the text "sentence1", the fields
        "sentence1_NAME", by NAME, such as SNLI's "sentence1_binary_parse".
    """

    format: str
    names: tuple[str, ...]
    annotated: bool = False

    def identity(self) -> Any:
        form = [_ending(self.path), self.format]
        field_names = [] if self.names == _JSON_FIELDS[self.format] else [list(self.names)]
        return [super().identity(), *form, *field_names]

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        for node in read_json_lines(self.path, bad_examples):
            if row := bad_examples.parse(_fields, node, *self.names):
                names = self.names[1:] if self.annotated else ()
                notes = tuple(_annotations(node.value, name) for name in names)
                yield _example(node.place, row, notes)


@dataclasses.dataclass(frozen=True)
class Table(tables.Table):
    """A table of labelled texts or pairs.

    Attributes:
      format: "pairs" or "texts".
      annotated: whether to read the annotations, as of `JsonLines`, by the header.
    """

    skips_blank: bool = True
    format: str = "pairs"
    annotated: bool = False

    def identity(self) -> Any:
        layout, form = self.layout, [_ending(self.path), self.format]
        in_order = layout.numbers == tuple(range(1, len(self.names) + 1))
        header = [["header"]] if layout.header else []
        numbers = [] if in_order and not header else [list(layout.numbers)]
        separator = [layout.separator] if self.is_csv else []
        return [super().identity(), *form, *header, *numbers, *separator]

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        layout = self.layout
        texts = [layout.header[n - (n > 0)] for n in layout.numbers[1:]] if layout.header else []
        for location, cells, named in self.rows(bad_examples):
            if self.is_csv:  # as in yelp_review_full
                cells = [cell.replace("\\n", "\n") for cell in cells]
            notes = tuple(_annotations(named, text) for text in texts if self.annotated)
            yield _example(location, cells, notes)


def _example(place: str, row: Sequence[str], notes: tuple[Annotations, ...]) -> Example:
    """An example of a label and texts, which are cleaned."""
    label, *texts = row
    cleaned = tuple(map(clean, texts))
    return Example(cleaned, label, cleaned[0], place, annotations=notes)


def _ending(path: Path) -> str:
    """The ending of a file's name, without .gz."""
    return path.name.removesuffix(".gz").rpartition(".")[2]


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
            location = f"{self.path}: question {question.id}"
            yield Example((question.text, sentence), label, group, location, question.id)


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
        for location, values, (label,) in self.rows(texts, bad_examples, [name]):
            if self.format == "ranking":
                question, sentence, article, number = values
                yield Example((question, sentence), labels[label], article, location, number)
            else:
                yield _example(location, [labels[label], *values], ())


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
        columns = config.columns_by_field
        if _ending(path).lower() in ("json", "jsonl"):
            by_name = any(isinstance(column, str) for column in columns.values())
            fields = tuple(map(str, columns.values())) if by_name else _JSON_FIELDS[config.format]
            return JsonLines(path, config.format, fields, annotated)
        names = {field: _HEADERS[field] for field in config.column_fields}
        return Table(path, names, columns, format=config.format, annotated=annotated)

    return find_source(
        config,
        split,
        generator=_GENERATORS["texts" if config.texts == 1 else "pairs"],
        records=lambda dataset, name, key: Records(dataset, name, key, config.format),
        files=lambda folder, names: join(
            file(find_file(folder / name)) for name in names_in(names, f"data.{split}")
        ),
    )
