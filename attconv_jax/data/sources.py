"""Sources of labelled texts: files, TensorFlow Datasets, or the generator.

Pairs and reviews are tables of any format (`common_jax.data.tables`). Ranked sentences are from
questions about passages (`attconv_jax.data.passages`), or from tables of questions and sentences.
"""

import dataclasses
import functools
import logging
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unicodedata import normalize

from attconv_jax.data.labels import LabelReader
from common_jax.bad_examples import BadExamples
from common_jax.data import sources, tables
from common_jax.data.corpus import recorded_identity
from common_jax.data.layouts import PAIRS, RANKING, TEXTS
from common_jax.data.object_rows import ObjectTable
from common_jax.data.prepared import Split
from common_jax.data.sources import Generator, find_source
from common_jax.data.tables import join
from common_jax.errors import UserError
from common_jax.fields import join_list
from common_jax.inputs import Annotations
from common_jax.io.files import find_files, names_in, require_distinct
from common_jax.text.cleaning import clean
from common_jax.text.word_tokenizer import ENGLISH, Rule

if TYPE_CHECKING:
    from attconv_jax.config import DataConfig

_log = logging.getLogger(__name__)

LAYOUTS = {"pairs": PAIRS, "texts": TEXTS, "ranking": RANKING}
# The fields of datasets' rows: label, texts; for rankings also the article and the question's id.
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

    def with_question(self, first: "Example") -> "Example":
        """This sentence for the question of the first row, as it is spelled and titled there."""
        texts = first.texts[0], *self.texts[1:]
        annotations = *first.annotations[:1], *self.annotations[1:]
        return dataclasses.replace(self, texts=texts, group=first.group, annotations=annotations)


Source = sources.Source[Iterator[Example]]


@dataclasses.dataclass(frozen=True)
class Table(tables.Table):
    """A table of labelled texts or pairs, or of questions and sentences.

    Attributes:
      format_name: "pairs", "texts" or "ranking".
      labels, ignored, inferred: as of `LabelReader`.
      reads_all: whether to read the annotations: for the text "sentence1", the columns
        "sentence1_NAME", by NAME, such as SNLI's "sentence1_binary_parse".
    """

    skips_blank: bool = True
    format_name: str = "pairs"
    labels: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    inferred: bool = False

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        table, columns, _ = self.content
        label_of = self._reader()
        has_notice = self.is_csv and not self.escaped_breaks
        fields = [field for field in self.layouts[0].columns if field != "label"]
        has_names = self.reads_all and bool(table.names)
        annotated = [columns[field] for field in fields] if has_names else []
        firsts = dict[tuple[str, str], Example]()

        for location, values, named in self.rows(bad_examples):
            texts = [values[field] for field in fields]
            if has_notice and any("\\n" in text for text in texts):
                what = "is text; data.escaped_breaks=True makes it a line break"
                _log.info('%s: a backslash before "n" %s', location, what)
                has_notice = False
            notes = tuple(_annotations(named, column) for column in annotated)
            example = _example(location, [label_of(values["label"]), *texts], notes)
            if self.format_name == "ranking":
                question, title = (values.get(f) or example.texts[0] for f in ("id", "title"))
                example = dataclasses.replace(example, question=question, group=title)
                if values.get("id"):  # two questions with one id differ by letters or digits
                    letters = filter(str.isalnum, normalize("NFKD", example.texts[0].casefold()))
                    first = firsts.setdefault((question, "".join(letters)), example)
                    example = example.with_question(first)
            yield example
        label_of.require_positions()

    def identity(self) -> Any:
        by_id = self.format_name == "ranking" and "id" in self.content.fields
        return [*super().identity(), *(["first row of an id"] if by_id else [])]

    def example_fault(self, cells: Sequence[str]) -> str:
        """As the base class: an example has a label."""
        at = self.columns.get("label", [*self.layouts[0].columns].index("label") + 1)
        label = ""
        if isinstance(at, int) and -len(cells) <= at <= len(cells):
            label = cells[at - (at > 0)]
        listed = f"{label.strip()[:60]!r} is none of data.labels={join_list(self.labels)}"
        return "" if self._reader().may_be(label) else f"no label, as {listed}"

    @functools.cached_property
    def file_labels(self) -> Sequence[str]:
        """The file's names of numbers of labels, if it has them."""
        if not self.has_objects:
            return ()
        return ObjectTable(self.path, self.format).label_names(self.content.fields["label"])

    def _reader(self) -> LabelReader:
        """The reader of labels; raises UserError as its constructor."""
        options = {"fixed": self.format_name == "ranking", "inferred": self.inferred}
        return LabelReader(self.labels, self.ignored, self.place, self.file_labels, **options)


def _example(place: str, row: Sequence[str], notes: tuple[Annotations, ...]) -> Example:
    """An example of a label and texts, which are cleaned."""
    label, *texts = row
    cleaned = tuple(map(clean, texts))
    return Example(cleaned, label, cleaned[0], place, annotations=notes)


def _annotations(fields: Mapping[str, Any], text: str) -> Annotations:
    """The annotations of a text, by name without the text's prefix."""
    start = f"{text}_"
    return {
        name.removeprefix(start): value
        for name, value in fields.items()
        if name.startswith(start) and isinstance(value, str)
    }


@dataclasses.dataclass(frozen=True)
class Records(sources.Records):
    """A split of a dataset of TensorFlow Datasets.

    Attributes:
      format: as of `DataConfig`.
      labels, ignored: `data.labels` and `data.ignored_labels`.
    """

    format: Literal["pairs", "texts", "ranking"]
    labels: tuple[str, ...]
    ignored: tuple[str, ...]

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
        names = self.dataset.labels[_DATASET_FIELDS[self.format][0]]
        return [super().identity(), self.format, *self._reader(names).identity(names)]

    def _reader(self, names: Sequence[str]) -> LabelReader:
        fixed = self.format == "ranking"
        return LabelReader(self.labels, self.ignored, self.place, names, fixed=fixed)

    def read(self, bad_examples: BadExamples) -> Iterator[Example]:
        name, *texts = _DATASET_FIELDS[self.format]
        label_of = self._reader(self.dataset.labels[name])
        for location, values, (label,) in self.rows(texts, bad_examples, [name]):
            if self.format == "ranking":
                question, sentence, article, number = values
                yield Example((question, sentence), label_of(str(label)), article, location, number)
            else:
                yield _example(location, [label_of(str(label)), *values], ())


def _labelled(rows: Iterable[tuple[Any, ...]], place: str) -> Iterator[Example]:
    """The examples of generated texts, each row with its label at the end."""
    for number, (*texts, label) in enumerate(rows, start=1):
        yield Example(tuple(texts), str(label), texts[0], f"{place}:{number}")


_GENERATORS = {
    "pairs": Generator(
        "attconv_jax.data.synthetic:generate",
        _labelled,
        recorded_identity(
            11769, "ea21b1761acd23fd8597945418f0e0e04ea8c9ea7ae5b867752d27fa05f15b5c"
        ),
    ),
    "texts": Generator(
        "attconv_jax.data.synthetic_reviews:generate",
        _labelled,
        recorded_identity(3630, "e62bf59bc5a91acad226d4e692a3696421cf1597275ea22562fe4bda7a6b282e"),
    ),
}


def source_of(
    config: "DataConfig", split: Split, annotated: bool = False, rule: Rule = ENGLISH
) -> Source:
    """The source of a split that is not held out.

    Args:
      annotated: whether to read annotations of texts.
      rule: of words.

    Raises:
      UserError: if a folder, file, dataset or split does not exist, or the dataset lacks features
        that `data.format` needs.
    """

    def files(folder: Path, names: str) -> Source:
        key = f"data.{split}"
        paths = [find_files(folder, name, key) for name in names_in(names, key, folder)]
        require_distinct(([path] for shards in paths for path in shards), key)
        return join(s for shards in paths for s in file_sources(config, shards, annotated, rule))

    return find_source(
        config,
        split,
        generator=_GENERATORS["texts" if config.texts == 1 else "pairs"],
        records=lambda dataset, name, key: Records(
            *(dataset, name, key, config.format, config.names, config.ignored_names)
        ),
        files=files,
    )


def file_sources(
    config: "DataConfig", shards: Sequence[Path], annotated: bool, rule: Rule
) -> list[Source]:
    """The sources of the files of a name."""
    options: Any = dict(format_name=config.format, escaped_breaks=config.escaped_breaks)
    options |= dict(labels=config.names, ignored=config.ignored_names, reads_all=annotated)
    options |= dict(quotes=config.quotes, inferred="labels" in config.to_infer)
    layouts = LAYOUTS[config.format]
    columns = config.columns_by_field
    tables_of_texts = [Table(path, layouts, columns, **options) for path in shards]
    if config.format == "ranking":
        selections = pkgutil.resolve_name("attconv_jax.data.passages:selections")
        return selections(config, shards, rule, tables_of_texts[0]) or [*tables_of_texts]
    return [*tables_of_texts]
