"""What the training library asks of a task, and all that it knows of one.

A config names its task as "package.module:Class". The task brings the model, the loss, the corpus,
the predictions and their score; the library brings the mesh, the steps, the checkpoints, the logs
and the files of a run.
"""

import abc
import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float, Shaped

from common_jax.data.batches import Batch, Batches
from common_jax.errors import UserError
from common_jax.predictor import CompiledFunctions, Compute, Predictor

Config = TypeVar("Config")
Params = Any


@dataclasses.dataclass(frozen=True)
class Scores:
    """What the score of a split's predictions came to.

    Attributes:
      metrics: by name; rates in percent.
      notes: how they were measured, such as sacreBLEU's signature, and on how many questions.
      files: contents by the end of their name: {".predictions.txt": ...} becomes
        eval/<split>.predictions.txt.
      examples: a few predictions for a person to look at, one a line.
      results: each example's own, by column, in example order: "length", and what the task can
        give of "nll" (in nats, summed over the example), "right" (0 or 1), "exact_match" and "f1"
        (0 to 1); becomes eval/<split>.examples.tsv. Empty where a task gives none.
    """

    metrics: dict[str, float]
    notes: dict[str, Any]
    files: dict[str, str]
    examples: list[str]
    results: Mapping[str, Shaped[np.ndarray, "n"]] = dataclasses.field(default_factory=dict)


class Task(abc.ABC, Generic[Config]):
    """One family's model, loss, corpus, predictions and score.

    Making a task touches no data; `prepare` does, and must come before the methods after it.

    Attributes:
      config_class: the dataclass of the family's configs.
      metric_names: what a validation reports, hence what can choose the best checkpoint.
      unit: what throughput counts: "tokens" or "examples".
      searches: whether its predictions at the end of a run are searched for harder than those of
        a validation; without, the two are one program.
      splits: scored at the end of a run.
      predictor_class: what answers people with a trained model.
      comparison: "package.module:Class" of the `common_jax.compare.Comparison` of its runs; ""
        where a report compares nothing but metrics.
    """

    config_class: ClassVar[type]
    predictor_class: ClassVar[type[Predictor]]
    metric_names: tuple[str, ...] = ("loss",)
    unit: ClassVar[str] = "examples"
    final_search: ClassVar[bool] = False
    splits: tuple[str, ...] = ("dev", "test")
    comparison: ClassVar[str] = ""

    def __init__(self, config: Config):
        self.config = config

    @abc.abstractmethod
    def init(self, key: Array) -> Params:
        """Fresh parameters, float32, a nested dict."""

    @abc.abstractmethod
    def loss(self, params: Params, batch: Batch, key: Array) -> dict[str, Float[Array, ""]]:
        """Sums over the batch: "loss" (optimised), "nll" (unsmoothed) and "weight" (what both are
        divided by, once, however the batch is spread over devices); further losses by their names,
        which "loss" has in it, are logged."""

    @abc.abstractmethod
    def prepare(self, workers: int | None = None) -> None:
        """Builds or finds the prepared corpus, and logs how large it is.

        Args:
          workers: threads that may share the building, whose result they do not change; None is
            as many as there are cores.

        Raises:
          UserError: data that is missing, broken, or does not fit the model.
        """

    @abc.abstractmethod
    def write_vocabulary(self, folder: Path) -> None:
        """Writes what turns text into numbers and back, after `prepare`."""

    @abc.abstractmethod
    def read_vocabulary(self, folder: Path) -> None:
        """Reads it, instead of `prepare` where there is no corpus, or before it to check that the
        corpus still has the same.

        Raises:
          UserError: if it is missing or broken.
        """

    @abc.abstractmethod
    def train_batches(self) -> Batches:
        """The training split."""

    @abc.abstractmethod
    def split_batches(self, split: str) -> Batches:
        """ "dev" or "test", every example once, with its index."""

    @abc.abstractmethod
    def predict_step(self, params: Params, batch: Batch, *, final: bool) -> dict[str, Array]:
        """Predictions, [B, ...] each; `final` is for tasks that search (`final_search`)."""

    @abc.abstractmethod
    def score(self, split: str, predictions: Mapping[str, np.ndarray]) -> Scores:
        """From the split's predictions in example order to numbers; touches no device."""

    def evaluation_set(self, split: str) -> Any:
        """What a split is to be judged by, so that runs are averaged on the same: its examples and
        their labels' names. After `prepare`. Only where each prediction of several runs may be
        averaged.

        Raises:
          UserError: where predictions of several runs cannot be averaged.
        """
        raise UserError(f"{type(self).__name__}: predictions of several runs cannot be averaged")

    @property
    @abc.abstractmethod
    def vocabulary(self) -> Any:
        """As `predictor_class.read_vocabulary` reads what `write_vocabulary` writes."""

    @property
    @abc.abstractmethod
    def settings(self) -> Any:
        """The `predictor_class.Settings` of this config."""

    @property
    @abc.abstractmethod
    def inputs(self) -> Mapping[str, tuple[str, Any]]:
        """What `serve` is given: each array's shape and type. Dims that an export shall leave open
        have a letter: {"source": ("B, S", np.int32)}."""

    @property
    def training_inputs(self) -> Mapping[str, tuple[str, Any]]:
        """The arrays of a training batch beside "index", as `inputs`: what
        `launch.plan` compiles a step for."""
        return self.inputs

    @property
    def batch_dims(self) -> tuple[str, ...]:
        """The open dims of a training batch by their letters, rows first."""
        dims = ", ".join(["B", *(dims for dims, _ in self.training_inputs.values())])
        return tuple(dict.fromkeys(dim for dim in dims.split(", ") if not dim.isdecimal()))

    def abstract_batch(self, sizes: Mapping[str, int]) -> Batch:
        """The shapes and types of a training batch.

        Args:
          sizes: by the letters of `batch_dims`.
        """
        arrays = {**self.training_inputs, "index": ("B", np.int32)}
        shape = lambda dims: tuple(sizes.get(dim) or int(dim) for dim in dims.split(", "))
        return {
            name: jax.ShapeDtypeStruct(shape(dims), kind) for name, (dims, kind) in arrays.items()
        }

    @property
    def programs(self) -> Sequence[Mapping[str, int]]:
        """The choices of `serve` that an export has programs for, unless it is asked for others;
        all have the same names, at most one."""
        return [{}]

    @abc.abstractmethod
    def serve(self, params: Params, arrays: Batch, **static: int) -> dict[str, Any]:
        """The model's side of the predictor (`common_jax.predictor.Compute`); pure, to be compiled
        with `static` known."""

    def predictor(self, params: Params, **options: Any) -> Predictor:
        """The model as a function on text; needs the vocabulary, not the corpus."""
        programs = _Jitted(self, params)
        return self.predictor_class(self.vocabulary, self.settings, programs, **options)

    def count_units(self, batch: Batch) -> tuple[Any, int]:
        """Real units (see `unit`) in a batch, and the positions that it spends on them."""
        return (batch["index"] >= 0).sum(), len(batch["index"])

    def example_input(self) -> str:
        """A line for `predictor`, of the corpus; "" if there is none to show."""
        return ""

    def next_commands(self, workdir: str) -> Sequence[str]:
        """What a person may want to type after training."""
        commands = [
            f"python -m launch.evaluate --workdir {workdir}",
            f"python -m launch.export --workdir {workdir} --out exports/{Path(workdir).name}",
        ]
        if line := self.example_input():  # a shell's echo may read its backslashes
            said = f"printf '%s\\n' {shlex.quote(line)}"
            commands.insert(0, f"{said} | python -m launch.predict --workdir {workdir}")
        return commands


class _Jitted(CompiledFunctions):
    """A task's own answers, compiled as they are asked for."""

    def __init__(self, task: Task, params: Params):
        self._task, self._params = task, params

    def __call__(self, **static: int) -> Compute:
        task = self._task
        answer = jax.jit(lambda params, arrays: task.serve(params, arrays, **static))
        return lambda arrays: answer(self._params, arrays)

    def choices(self, name: str) -> tuple[int, ...]:
        return ()
