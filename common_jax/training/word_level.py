"""Base class of tasks with a corpus of words (`common_jax.data.word_level`)."""

from pathlib import Path
from typing import Any

from common_jax.data.batches import Batches
from common_jax.data.word_level import WordLevelData
from common_jax.training.task import Config, Task


class WordLevelTask(Task[Config]):
    """A task that reads its corpus and vocabulary from `data`."""

    config: Any
    data: WordLevelData

    def prepare(self, workers: int | None = None) -> None:
        self.data.prepare()
        self.data.report()

    def has_vocabulary_of(self, other: Task) -> bool:
        return self.data.vocabulary.compatible_with(other.data.vocabulary)

    def write_vocabulary(self, folder: Path) -> None:
        self.data.vocabulary.save(folder)

    def read_vocabulary(self, folder: Path) -> None:
        self.data.read_vocabulary(folder)

    def train_batches(self) -> Batches:
        return self.data.train_batches(self.config.train.seed)

    def split_batches(self, split: str) -> Batches:
        return self.data.split_batches(split)
