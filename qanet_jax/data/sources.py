"""Where questions come from: files, TensorFlow Datasets, or the project's own generator."""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from common_jax.bad_examples import BadExamples
from common_jax.data.corpus import file_identity, recorded_identity
from common_jax.data.tfds import Dataset
from common_jax.io.files import find_file, find_folder
from common_jax.text.squad import Squad, read_squad, read_squad_dataset
from qanet_jax.data.synthetic import Split as GeneratedSplit
from qanet_jax.data.synthetic import generate
from qanet_jax.data.triviaqa import (
    DEV_WINDOW,
    SUPERVISED_WORDS,
    TRAIN_WINDOW,
    Trivia,
    read_dataset,
    read_release,
    read_sample,
    supervise,
)

if TYPE_CHECKING:
    from qanet_jax.config import DataConfig

Split = Literal["train", "dev", "test", "dev_oracle"]
Golds = list[dict[str, Any]]  # questions of TriviaQA as `qanet_jax.triviaqa_metrics` scores them


@runtime_checkable
class Source(Protocol):
    """A split's passages and questions."""

    @property
    def place(self) -> str:
        """What messages call it."""

    def identity(self) -> Any:
        """What decides its content, as JSON."""

    def read(self, bad_examples: BadExamples) -> tuple[Squad, Golds | None]:
        """Its content, and what TriviaQA scores it by."""


@dataclasses.dataclass(frozen=True)
class File:
    """A JSON file of SQuAD's form."""

    path: Path

    @property
    def place(self) -> str:
        return str(self.path)

    def identity(self) -> Any:
        return file_identity(self.path)

    def read(self, bad_examples: BadExamples) -> tuple[Squad, Golds | None]:
        return read_squad(self.path, bad_examples), None


@dataclasses.dataclass(frozen=True)
class Records:
    """A split of a dataset of TensorFlow Datasets with the features of "squad/v1.1".

    Attributes:
      key: the config key that named the split.
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

    def read(self, bad_examples: BadExamples) -> tuple[Squad, Golds | None]:
        return read_squad_dataset(self.dataset, self.split, self.key, bad_examples), None


# Of `qanet_jax.data.synthetic` and `synthetic_scenes`.
_GENERATED = [
    recorded_identity(8313, "054cb0a75d6fcaca58e37175511f707ac0ab550426a5d318bed48aa79dd9df78"),
    recorded_identity(15411, "9a917f2c854835520bf6489a4f6c5c0c764c9ead97964c8f42988102a4d27aa1"),
]


@dataclasses.dataclass(frozen=True)
class Generated:
    """Questions that `qanet_jax.data.synthetic` makes."""

    count: int
    seed: int
    split: GeneratedSplit

    @property
    def place(self) -> str:
        return f"generated {self.split}"

    def identity(self) -> Any:
        return {"code": _GENERATED, "count": self.count, "seed": self.seed, "split": self.split}

    def read(self, bad_examples: BadExamples) -> tuple[Squad, Golds | None]:
        return generate(self.count, self.seed, self.split), None


@dataclasses.dataclass(frozen=True)
class Supervised:
    """A split of TriviaQA with its spans supplied at a distance.

    Trained on are windows with an answer. Evaluation reads the beginning of every document, as the
    official scores want it, or such windows again ("dev_oracle"), where the questions that have one
    are all that count.

    Attributes:
      source: the file or the dataset's split.
      lines: whether the file is of JSON lines.
    """

    source: File | Records
    lines: bool
    split: Split
    seed: int

    @property
    def place(self) -> str:
        return self.source.place

    def identity(self) -> Any:
        return {"triviaqa": self.source.identity(), "split": self.split, "seed": self.seed}

    def read(self, bad_examples: BadExamples) -> tuple[Squad, Golds | None]:
        golds: Golds = []

        def questions() -> Iterator[Trivia]:  # of which only the golds are kept
            for question in self._questions(bad_examples):
                golds.append(_gold(question))
                yield question

        window = {"train": TRAIN_WINDOW, "dev_oracle": DEV_WINDOW}.get(self.split)
        width, answered = window or SUPERVISED_WORDS, window is not None
        squad = supervise(questions(), width, self.seed, bad_examples, answered=answered)
        if self.split == "train":
            return squad, None
        if self.split == "dev_oracle":
            there = {question.id.partition("--")[0] for question in squad.questions}
            for gold in golds:
                if gold["QuestionId"] not in there:
                    bad_examples.skip("question without a window", gold["QuestionId"])
            golds = [gold for gold in golds if gold["QuestionId"] in there]
        return squad, golds

    def _questions(self, bad_examples: BadExamples) -> Iterable[Trivia]:
        if isinstance(self.source, Records):
            return read_dataset(
                self.source.dataset, self.source.split, self.source.key, bad_examples
            )
        return (read_sample if self.lines else read_release)(self.source.path, bad_examples)


def splits_of(config: "DataConfig") -> tuple[Split, ...]:
    """The splits that there are; the last is the one to report."""
    oracle: list[Split] = [] if config.format == "squad" else ["dev_oracle"]
    test: list[Split] = ["test"] if config.source == "generated" or config.test else []
    return ("train", *oracle, "dev", *test)


def source_of(config: "DataConfig", split: Split) -> Source:
    """Where a split comes from.

    Raises:
      UserError: a folder, file or dataset that is not there.
    """
    if config.source == "generated":
        assert split != "dev_oracle", "made questions are of SQuAD's form"
        count = config.examples if split == "train" else config.holdout_size
        return Generated(count, config.seed, split)
    key = split.removesuffix("_oracle")
    name = getattr(config, key)
    if config.source == "tfds":
        source: File | Records = Records(Dataset(config.tfds, config.dir), name, f"data.{key}")
    else:
        source = File(find_file(find_folder(config.dir, "data.dir") / name))
    if config.format == "squad":
        return source
    return Supervised(source, config.format == "triviaqa_lines", split, config.seed)


def _gold(question: Trivia) -> dict[str, Any]:
    return {
        "QuestionId": question.id,
        "Answer": {"NormalizedAliases": list(question.golds)},
        "QuestionPartOfVerifiedEval": question.verified,
    }
