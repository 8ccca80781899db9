"""Sources of questions about passages: files, TensorFlow Datasets, or the generator."""

import dataclasses
import pkgutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from common_jax.bad_examples import BadExamples
from common_jax.data import prepared, sources
from common_jax.data.corpus import recorded_identity
from common_jax.data.holdout import ShuffledGroups
from common_jax.data.sources import Generator, Sources, find_source
from common_jax.io.files import find_file, find_files, names_in, require_distinct
from common_jax.text.squad import REPEATED, Squad, is_squad, read_squad, read_squad_dataset
from common_jax.text.word_tokenizer import Rule
from qanet_jax.data import Golds, Split

if TYPE_CHECKING:
    from qanet_jax.config import DataConfig


# Identifies the output of `qanet_jax.data.triviaqa` in fingerprints.
TRIVIAQA = recorded_identity(
    12449, "e3b9413f80f760029e466367c5014ed20bd3a3449acfef7afda4e2df12b5c52e"
)


@dataclasses.dataclass(frozen=True)
class Content:
    """The content of a split.

    Attributes:
      golds: the gold answers of TriviaQA; None for SQuAD's format.
      sizes: the number of questions of each file, if there are several.
    """

    squad: Squad
    golds: Golds | None = None
    sizes: tuple[int, ...] = ()


Source = sources.Source[Content]

_GENERATOR: Generator[Content] = Generator(
    "qanet_jax.data.synthetic:generate",
    lambda squad, place: Content(squad),
    [
        recorded_identity(8313, "054cb0a75d6fcaca58e37175511f707ac0ab550426a5d318bed48aa79dd9df78"),
        recorded_identity(
            15411, "9a917f2c854835520bf6489a4f6c5c0c764c9ead97964c8f42988102a4d27aa1"
        ),
    ],
)


@dataclasses.dataclass(frozen=True)
class File(sources.FileSource):
    """A JSON file of SQuAD's format.

    Attributes:
      unnamed: as of `read_squad`.
    """

    unnamed: str = ""

    def read(self, bad_examples: BadExamples) -> Content:
        return Content(read_squad(self.path, bad_examples, self.unnamed))


@dataclasses.dataclass(frozen=True)
class Files(Sources[Content]):
    """Several files of questions.

    Attributes:
      distinct: whether a question's id may occur in only one of them.
    """

    distinct: bool = False

    def read(self, bad_examples: BadExamples) -> Content:
        result = Squad([], [])
        sizes = []
        ids = set[str]()
        for source in self.sources:
            squad = source.read(bad_examples).squad
            before = len(result.contexts)
            count = len(result.questions)
            for question in squad.questions:
                if self.distinct and question.id in ids:
                    bad_examples.reject(REPEATED, f"{source.place} {question.id!r}")
                    continue
                ids.add(question.id)
                result.questions.append(replace(question, context=question.context + before))

            result.contexts.extend(squad.contexts)
            sizes.append(len(result.questions) - count)
        return Content(result, sizes=tuple(sizes))


class Records(sources.Records):
    """A split of a dataset of TensorFlow Datasets with the features of "squad/v1.1"."""

    def read(self, bad_examples: BadExamples) -> Content:
        return Content(read_squad_dataset(self.dataset, self.split, self.key, bad_examples))


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """Dev, random passages of the training source with all their questions, at least `size` of
    these; or train, the other passages."""

    source: Source
    split: Split
    size: int
    seed: int

    @property
    def place(self) -> str:
        return self.source.place

    def identity(self) -> Any:
        fields = {"held_out": self.size, "seed": self.seed, "split": self.split}
        return {**fields, "source": self.source.identity()}

    def read(self, bad_examples: BadExamples) -> Content:
        is_train = self.split == "train"  # reports the bad examples of both
        squad = self.source.read(bad_examples if is_train else BadExamples("skip")).squad
        held_out = ShuffledGroups(["dev"], self.size, self.seed, "questions")
        for question in squad.questions:
            held_out.add(squad.contexts[question.context])
        return Content(squad.select(held_out.rows(self.place)[self.split].tolist()))


def source_of(config: "DataConfig", split: Split, rule: Rule) -> Source:
    """The source of a split.

    Args:
      rule: of words.

    Raises:
      UserError: if a folder, file or dataset does not exist.
    """
    if config.holds_out_dev and split in ("train", "dev"):
        train = _named_source(config, "train", rule)
        return HeldOut(train, split, config.holdout_size, config.seed)
    return _named_source(config, split, rule)


def _named_source(config: "DataConfig", split: Split, rule: Rule) -> Source:
    """The source that a config names for a split."""

    def files(folder: Path, names: str) -> Source:
        train = split == "train"
        key = f"data.{split}"
        file_names = [*(config.train_files if train else names_in(names, key, folder))]
        several = len(file_names) > 1
        if config.format == "squad":  # the others have one file
            found = (find_files(folder, name, key) for name in file_names)
            require_distinct(([path] for paths in found for path in paths), key)
        existing = tuple(_files(config, folder, name, split, several) for name in file_names)
        return Files(existing, distinct=not train) if several else existing[0]

    source: Source = find_source(
        config,
        cast(prepared.Split, split.removesuffix("_oracle")),
        generator=_GENERATOR,
        records=Records,
        files=files,
    )
    if config.format == "squad":
        return source
    supervised = pkgutil.resolve_name("qanet_jax.data.triviaqa:Supervised")
    lines = config.format == "triviaqa_lines"
    trivia: Source = supervised(source, lines, split, config.seed, rule)
    return trivia


def _files(config: "DataConfig", folder: Path, name: str, split: Split, several: bool) -> Source:
    """The source of a name, one of `several`, or of a pattern."""
    if config.format != "squad":
        return File(find_file(folder / name))
    paths = find_files(folder, name, f"data.{split}")
    if all(map(is_squad, paths)):
        unnamed = [f"{path.name}:" if several or len(paths) > 1 else "" for path in paths]
        files = tuple(map(File, paths, unnamed))
        return files[0] if len(files) == 1 else Files(files, distinct=True)
    tables_of = pkgutil.resolve_name("qanet_jax.data.tables:tables_of")
    return tables_of(config, paths, f"{paths[0].name}:" if several else "")
