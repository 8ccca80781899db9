"""Base class of tasks with a corpus of words (`common_jax.data.word_level`)."""

import abc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from common_jax.data.batches import Batches
from common_jax.data.word_level import WordLevelData
from common_jax.training.task import Config, Task


class WordLevelTask(Task[Config]):
    """A task that reads its corpus and vocabulary from `data`."""

    config: Any
    data: WordLevelData

    @property
    @abc.abstractmethod
    def inputs(self) -> Mapping[str, tuple[str, Any]]:
        """Shape and type of the arrays of the model, with letters for symbolic dims: those of an
        answer (`Service.inputs`)."""

    def example_arrays(self) -> dict[str, Array]:
        """`inputs` of one example with two words in each text, to initialize parameters."""

        def size(dim: str) -> int:
            return 1 if dim == "B" else int(dim) if dim.isdecimal() else 2

        shapes = {name: map(size, dims.split(", ")) for name, (dims, _) in self.inputs.items()}
        return {name: jnp.ones([*shapes[name]], kind) for name, (_, kind) in self.inputs.items()}

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
