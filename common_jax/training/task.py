"""The interface between the training library and a task.

A config names its task as "package.module:Class". The task defines the model, the loss, the corpus,
the predictions and their score; the library provides the mesh, the steps, the checkpoints, the logs
and the files of a run.
"""

import abc
import dataclasses
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from jaxtyping import Array, Float, Shaped

from common_jax.data.batches import Batch, Batches
from common_jax.data.prepared import Preparation
from common_jax.errors import UserError
from common_jax.file_names import VOCABULARY
from common_jax.io.paths import expand_user

Config = TypeVar("Config")
Params = Any


@dataclasses.dataclass(frozen=True)
class Scores:
    """Scores of a split's predictions.

    Attributes:
      metrics: by name; rates in percent.
      notes: on the measurement, such as sacreBLEU's signature and the number of questions.
      predictions: in the task's official format, by the ending of its name: {"txt": ...} becomes
        eval/<split>.predictions.txt.
      examples: a few predictions to display, one a line.
      results: of each example, by column, in example order: "length", and those of "nll" (in nats,
        summed over the example), "right" (0 or 1, or a chance where a tie decides), "exact_match"
        and "f1" (0 to 1) that the task has; becomes eval/<split>.examples.tsv. May be empty.
      references, sources: those of translations, one a line; become eval/<split>.references and
        .sources. May be empty.
      errors: returns the wrong predictions with their texts, an object each, with "row" (from 1),
        the texts, "gold", "predicted" and "probability"; of translations every sentence with its
        "chrf". They become eval/<split>.errors.jsonl.
    """

    metrics: dict[str, float]
    notes: dict[str, Any]
    predictions: dict[str, str]
    examples: list[str]
    results: Mapping[str, Shaped[np.ndarray, "n"]] = dataclasses.field(default_factory=dict)
    references: Sequence[str] = ()
    sources: Sequence[str] = ()
    errors: Callable[[], Iterable[Mapping[str, Any]]] = tuple


class Task(abc.ABC, Generic[Config]):
    """One family's model, loss, corpus, predictions and score.

    The constructor reads no data; `prepare` does, and must be called before the methods after it.

    Attributes:
      config_class: the dataclass of the family's configs.
      data: the `PreparedData`; None for a task without files.
      metric_names: the metrics of a validation, one of which selects the best checkpoint.
      unit: of throughput: "tokens" or "examples".
      final_search: whether predictions at the end of a run use a more expensive search than those
        of a validation; otherwise one compiled function serves both.
      splits: scored at the end of a run.
      printed_notes: the `Scores.notes` that are numbers and printed beside the metrics.
      decoding: options of decoding that differ from the run's config, for the final
        `predict_step` and for answers.
      comparison: "package.module:Class" of the `common_jax.compare.Evaluation` of its runs; ""
        if a report compares only metrics.
      service: "package.module:Class" of the `common_jax.deploy.service.Service` that answers with a
        trained model; "" for none.
      example_flags: flags of `launch.predict` for an example that is given on its command line; ""
        if there are none.
    """

    config_class: ClassVar[type]
    data: Any = None
    metric_names: tuple[str, ...] = ("loss",)
    unit: ClassVar[str] = "examples"
    final_search: ClassVar[bool] = False
    splits: tuple[str, ...] = ("dev", "test")
    printed_notes: ClassVar[tuple[str, ...]] = ()
    decoding: Mapping[str, Any] = {}
    comparison: ClassVar[str] = ""
    service: ClassVar[str] = ""
    example_flags: ClassVar[str] = ""

    def __init__(self, config: Config):
        self.config = config

    @abc.abstractmethod
    def init(self, key: Array) -> Params:
        """Initial parameters, float32, a nested dict."""

    @abc.abstractmethod
    def loss(self, params: Params, batch: Batch, key: Array) -> dict[str, Float[Array, ""]]:
        """Sums over the batch: "loss" (optimised), "weight" (by which all others are divided, once
        for all devices), and what else is logged: "nll" (unsmoothed), further terms by name."""

    @abc.abstractmethod
    def prepare(self, workers: int | None = None) -> None:
        """Builds or opens the prepared corpus, and logs its size.

        Args:
          workers: number of threads, which does not affect the result; None is the number of
            cores.

        Raises:
          UserError: for data that is missing, broken, or does not fit the model.
        """

    def search(self, *, final: bool) -> str:
        """The name of the search of `predict_step`, such as "beam 4"; "" if there is only one."""
        return ""

    @property
    def fixed(self) -> Sequence[str]:
        """The parameters that training does not change, by their names at the top of the tree."""
        return ()

    @property
    def warnings(self) -> Sequence[str]:
        """What the scores have to be read with, for result.json; after `prepare`."""
        return getattr(self.data, "warnings", ())

    def data_digests(self) -> dict[str, str]:
        """Identifies the prepared corpus, after `prepare`: the SHA-256 of its files, by name."""
        return {} if self.data is None else self.data.digests()

    @abc.abstractmethod
    def write_vocabulary(self, folder: Path) -> None:
        """Writes the vocabulary, after `prepare`."""

    @abc.abstractmethod
    def read_vocabulary(self, folder: Path) -> None:
        """Reads the vocabulary: instead of `prepare`, without a corpus; or before `prepare`, which
        then checks that the corpus has the same.

        Raises:
          UserError: if it is missing or broken.
        """

    def prepare_as(self, **fields: Any) -> None:
        """Changes fields of the `Preparation` for the next `prepare`."""
        if self.data is not None:
            self.data.preparation = dataclasses.replace(self.data.preparation, **fields)

    def has_vocabulary_of(self, other: "Task") -> bool:
        """Whether training of another task's parameters can continue with this vocabulary."""
        return vocabulary_files(self) == vocabulary_files(other)

    def new_parameters(self, source: "Task") -> Sequence[str]:
        """The names of parameters that `train.init_from` does not take over from a task."""
        return ()

    @abc.abstractmethod
    def train_batches(self) -> Batches:
        """The training split."""

    @abc.abstractmethod
    def split_batches(self, split: str) -> Batches:
        """The batches of "dev" or "test", every example once, with its index."""

    @abc.abstractmethod
    def predict_step(self, params: Params, batch: Batch, *, final: bool) -> dict[str, Array]:
        """Predictions, [B, ...] each; `final` as in `final_search`."""

    @abc.abstractmethod
    def score(self, split: str, predictions: Mapping[str, np.ndarray]) -> Scores:
        """The scores of a split's predictions in example order; uses no device."""

    def evaluation_set(self, split: str) -> Any:
        """Identifies a split's examples and label names, which must be equal for runs whose
        probabilities are averaged; their predictions are logits. After `prepare`.

        Raises:
          UserError: if predictions of this task cannot be averaged.
        """
        raise UserError(f"{type(self).__name__}: predictions of several runs cannot be averaged")

    @property
    def training_inputs(self) -> Mapping[str, tuple[str, Any]]:
        """Shape and type of the arrays of a training batch beside "index", with letters for the
        symbolic dims, for `launch.plan`: {"source": ("B, S", np.int32)}; empty if not declared."""
        return {}

    def count_units(self, batch: Batch) -> tuple[Any, int]:
        """The units (see `unit`) of a batch, and its positions with padding."""
        return (batch["index"] >= 0).sum(), len(batch["index"])

    def example_lines(self, split: str, count: int = 1) -> Sequence[str]:
        """The first lines of an evaluated split, for `launch.predict`; empty if it has no form."""
        return ()


def preparation_of(config: Any) -> Preparation:
    """The preparation of a corpus with the vocabulary in the folder of `data.vocabulary_from`;
    `common_jax.deploy.configs` resolves names of models."""
    folder = config.data.vocabulary_from
    if not folder:
        return Preparation(None)
    return Preparation(f"{expand_user(folder, 'data.vocabulary_from').rstrip('/')}/{VOCABULARY}")


def vocabulary_files(task: Task) -> dict[str, bytes]:
    """The content of the files of `Task.write_vocabulary`, by name."""
    with tempfile.TemporaryDirectory() as folder:
        task.write_vocabulary(Path(folder))
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
