"""Where questions come from: files, TensorFlow Datasets, or the project's own generator."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from common_jax.data.corpus import file_identity
from common_jax.data.faults import Faults
from common_jax.data.tfds import Dataset
from common_jax.errors import UserError
from common_jax.text.files import find_file
from common_jax.text.squad import Squad, read_squad, read_squad_dataset

if TYPE_CHECKING:
    from qanet_jax.config import DataConfig

Split = Literal["train", "dev", "test"]


class Source(Protocol):
    """A split's passages and questions."""

    @property
    def place(self) -> str:
        """What messages call it."""

    def identity(self) -> Any:
        """What decides its content, as JSON."""

    def read(self, faults: Faults) -> Squad:
        """Its content; what is wrong with it goes to `faults`."""


@dataclasses.dataclass(frozen=True)
class File:
    """A JSON file of SQuAD's form."""

    path: Path

    @property
    def place(self) -> str:
        return str(self.path)

    def identity(self) -> Any:
        return file_identity(self.path)

    def read(self, faults: Faults) -> Squad:
        return read_squad(self.path, faults)


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
        self.dataset.source(self.split, self.key)  # whether there is such a split
        return self.dataset.identity(self.split)

    def read(self, faults: Faults) -> Squad:
        return read_squad_dataset(self.dataset, self.split, self.key, faults)


@dataclasses.dataclass(frozen=True)
class Generated:
    """Questions that `qanet_jax.generate` makes."""

    count: int
    seed: int
    split: Split

    @property
    def place(self) -> str:
        return f"generated {self.split}"

    def identity(self) -> Any:
        folder = Path(__file__).parent
        code = [file_identity(folder / f"{name}.py") for name in ("generate", "scenes")]
        return {"code": code, "count": self.count, "seed": self.seed, "split": self.split}

    def read(self, faults: Faults) -> Squad:
        from qanet_jax.generate import generate

        return generate(self.count, self.seed, self.split)


def splits_of(config: "DataConfig") -> tuple[Split, ...]:
    """The splits that there are."""
    has_test = config.source == "generated" or config.test
    return ("train", "dev", "test") if has_test else ("train", "dev")


def source_of(config: "DataConfig", split: Split) -> Source:
    """Where a split comes from.

    Raises:
      UserError: a folder, file or dataset that is not there.
    """
    if config.source == "generated":
        count = config.examples if split == "train" else config.heldout
        return Generated(count, config.seed, split)
    name = getattr(config, split)
    if config.source == "tfds":
        return Records(Dataset(config.tfds, config.dir), name, f"data.{split}")
    folder = Path(config.dir).expanduser()
    if not folder.is_dir():
        raise UserError(f"data.dir={config.dir}: no such folder")
    return File(find_file(folder / name))
