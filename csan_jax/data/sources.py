"""Sources of sentence pairs: parallel files, tables, TensorFlow Datasets, or the generator."""

import dataclasses
import itertools
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from common_jax.bad_examples import BadExamples
from common_jax.data import sources, tables
from common_jax.data.corpus import file_identity, recorded_identity
from common_jax.data.layouts import are_names, translation
from common_jax.data.prepared import Split
from common_jax.data.sources import Generator, decode, find_source
from common_jax.data.tables import join
from common_jax.errors import UserError
from common_jax.io.files import (
    LONGEST,
    ends_in_returns,
    find_file,
    find_files,
    is_pattern,
    matches,
    names_in,
    read_raw_lines,
    reading,
    require_distinct,
    uncompressed_name,
)
from common_jax.text.cleaning import clean
from csan_jax.data.text import one_line, undo_escapes
from csan_jax.languages import language_of

if TYPE_CHECKING:
    from csan_jax.config import DataConfig

_TITLE = re.compile(r"\W*(?:\w+\W+){0,3}\w+[)\]]?\s*")  # up to four words, no sentence's end


class Pair(NamedTuple):
    """A raw sentence and its translation; neither is blank."""

    place: str
    source: str
    target: str


Source = sources.Source[Iterator[Pair]]


@dataclasses.dataclass(frozen=True)
class Parallel:
    """Two files with parallel lines."""

    files: tuple[Path, Path]

    def __post_init__(self):
        source, target = self.files
        if source.samefile(target):
            raise UserError(
                f"{source}: the same file as {target}, not its translation; set "
                "data.source_language and data.target_language to the endings of two files"
            )

    @property
    def place(self) -> str:
        return str(self.files[0])

    def identity(self) -> Any:
        returns = ["returns"] if any(map(_has_returns, self.files)) else []
        return [*map(file_identity, self.files), *returns]

    def read(self, bad_examples: BadExamples) -> Iterator[Pair]:
        sides = map(read_raw_lines, self.files)
        names = list(map(str, self.files))
        for number, lines in enumerate(itertools.zip_longest(*sides), start=1):
            if None in lines:
                raise self._unequal(number - 1, lines.index(None))

            # the usual case: text on both sides
            try:
                source = clean(lines[0].decode())
                target = clean(lines[1].decode())
            except UnicodeDecodeError:
                source = target = ""
            if source and target:  # most lines; what follows rejects the others
                yield Pair(f"{names[0]}:{number}", source, target)
                continue

            # other pairs: the fault for which they are rejected
            locations = [f"{name}:{number}" for name in names]
            texts = decode(zip(lines, locations, strict=True), bad_examples)
            yield from _valid(texts, locations, bad_examples)

    def _unequal(self, lines: int, ended: int) -> UserError:
        other = self.files[1 - ended]
        count = sum(1 for _ in read_raw_lines(other))
        return UserError(
            f"{self.files[ended]}:{lines}: ends after {lines} lines, but {other} has {count}; "
            "parallel files need a line for each line"
        )


class Table(tables.Table):
    """A table with a pair in each row."""

    logs_numbers = True

    def example_fault(self, cells: Sequence[str]) -> str:
        """As the base class: CSV often has a header, with any names, others one of languages."""
        known = {name for names in self.layouts[0].columns.values() for name in names}
        may_be_header = self.is_csv or are_names(cells) or any(_is_title(c, known) for c in cells)
        return "not surely an example" if may_be_header else ""

    def read(self, bad_examples: BadExamples) -> Iterator[Pair]:
        for row in self.rows(bad_examples):
            texts = (one_line(row.fields[side]) for side in ("source", "target"))
            yield from _valid(texts, [row.place, row.place], bad_examples)


@dataclasses.dataclass(frozen=True)
class Records(sources.Records):
    """A split of a dataset of TensorFlow Datasets, with source and target as features.

    Attributes:
      languages: the features that are source and target.
    """

    languages: tuple[str, str]

    def __post_init__(self):
        source, target = self.languages
        if source == target:
            raise UserError(f"data.source_language={source}: also data.target_language; set both")
        for side, language in zip(("source", "target"), self.languages, strict=True):
            if language not in self.dataset.texts:
                raise UserError(
                    f"data.{side}_language={language}: {self.dataset.name} has the texts "
                    f"{', '.join(self.dataset.texts) or '(none)'}"
                )

    def identity(self) -> Any:
        return [super().identity(), list(self.languages)]

    def read(self, bad_examples: BadExamples) -> Iterator[Pair]:
        for location, texts, _ in self.rows(self.languages, bad_examples):
            yield from _valid(map(one_line, texts), [location, location], bad_examples)


@dataclasses.dataclass(frozen=True)
class Unescaped:
    """The pairs of another source, with Moses's escapes undone."""

    source: Source

    @property
    def place(self) -> str:
        return self.source.place

    def identity(self) -> Any:
        return {"moses_escapes": "undo", "of": self.source.identity()}

    def read(self, bad_examples: BadExamples) -> Iterator[Pair]:
        for location, source, target in self.source.read(bad_examples):
            yield Pair(location, undo_escapes(source), undo_escapes(target))


def _numbered(pairs: Iterable[tuple[str, str]], place: str) -> Iterator[Pair]:
    for number, pair in enumerate(pairs, start=1):
        yield Pair(f"{place} pair {number}", *pair)


_GENERATOR = Generator(
    "csan_jax.data.synthetic:generate",
    _numbered,
    [  # of `csan_jax.data.synthetic`, `synthetic_phrases` and `synthetic_templates`
        recorded_identity(6720, "0096b095b33dcc6265019b79839d9cdf98bf18b15fa33bac2161588b66267da6"),
        recorded_identity(
            12044, "9aec64e0e2af0e76f4191d588ec15a09585d56a3502cacfc179a3ca591df2a64"
        ),
        recorded_identity(8499, "937b6747ec2619bd9f6729d221cfde618ffa9dbe39fb08951be5b384e28f90fd"),
    ],
)


def source_of(config: "DataConfig", split: Split) -> Source:
    """The source of a split that is not held out.

    Raises:
      UserError: if a folder, file, dataset or split does not exist.
    """
    languages = config.source_language, config.target_language
    if not all(languages) and config.source != "generated":
        raise UserError("data.source_language and data.target_language: name both")

    def files(folder: Path, names: str) -> Source:
        key = f"data.{split}"
        listed = names_in(names, key, folder)
        found = [source for name in listed for source in _sources(config, folder, name, key)]
        require_distinct((s.files if isinstance(s, Parallel) else [s.path] for s in found), key)
        return join(found)

    source: Source = find_source(
        config,
        split,
        generator=_GENERATOR,
        records=lambda dataset, name, key: Records(dataset, name, key, languages),
        files=files,
    )
    undo = config.moses_escapes == "undo" and config.source != "generated"
    return Unescaped(source) if undo else source


def _sources(config: "DataConfig", folder: Path, name: str, key: str) -> Sequence[Parallel | Table]:
    """The sources of a name or of a pattern."""
    languages = config.source_language, config.target_language
    if config.is_table(name):
        layouts = translation(languages)
        columns = config.columns_by_field
        files = find_files(folder, name, key)
        options: Any = {"separator": config.separator, "quotes": config.quotes}
        return [Table(file, layouts, columns, **options) for file in files]
    stems = find_stems(folder, name, config.source_language)
    pairs = [tuple(find_file(f"{stem}.{language}") for language in languages) for stem in stems]
    return [Parallel((source, target)) for source, target in pairs]


def _is_title(cell: str, known: Container[str]) -> bool:
    """Whether a few words without an end of a sentence name a language or a known column."""
    words = re.findall(r"[^\W\d_]+", cell.lower()) if _TITLE.fullmatch(cell) else []
    return any(language_of(word) or word in known for word in words)


def _has_returns(path: Path) -> bool:
    """Whether carriage returns end the lines of a file."""
    with reading(path) as file:
        return ends_in_returns(file.readline(LONGEST))


def find_stems(folder: Path, name: str, ending: str) -> list[Path]:
    """The stem `name`, or if it is a pattern the stems of the files STEM.`ending` that match."""
    if not is_pattern(folder, f"{name}.{ending}"):
        return [folder / name]
    files = matches(folder, f"{name}.{ending}*")
    stems = [file.with_name(uncompressed_name(file)).with_suffix("") for file in files]
    return list(dict.fromkeys(stems)) or [folder / name]


def _valid(
    texts: Iterable[str] | None, places: list[str], bad_examples: BadExamples
) -> Iterator[Pair]:
    """The pair of two texts, cleaned, unless they are None; rejects it if one is blank.

    Args:
      places: the texts' locations for messages.
    """
    if texts is None:
        return
    source, target = map(clean, texts)
    if source and target:
        yield Pair(places[0], source, target)
    elif source:
        bad_examples.reject("empty target", places[1])
    else:
        bad_examples.reject("empty source" if target else "both sides empty", places[0])
