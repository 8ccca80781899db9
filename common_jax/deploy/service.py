"""The interface between deployment and a task: how a trained model answers.

A task names its service as "package.module:Class" (`Task.service`); training does not import it.
"""

import abc
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import jax

from common_jax.config import SplitsConfig
from common_jax.data.batches import Batch
from common_jax.deploy.bounded_program import BoundedProgram
from common_jax.deploy.format import Export
from common_jax.deploy.predictor import (
    MEMORY,
    CompiledFunctions,
    Compute,
    Predictor,
    parallel_batches,
)
from common_jax.deploy.traced import TracedExecutables
from common_jax.errors import UserError, error_context
from common_jax.fields import named_class
from common_jax.text.word_tokenizer import ENGLISH
from common_jax.training.task import Params, Task

T = TypeVar("T", bound=Task)


class Service(abc.ABC, Generic[T]):
    """The answers of a task's model: its arrays, its programs, its predictor and its card.

    Attributes:
      predictor_class: the predictor of a trained model.
      task: with its vocabulary, and `decoding`.
      hub_task: the task's name on a hub.
    """

    predictor_class: ClassVar[type[Predictor]]
    hub_task: str = "other"

    def __init__(self, task: T):
        self.task = task

    @property
    @abc.abstractmethod
    def settings(self) -> Any:
        """The `predictor_class.Settings` of the task's config.

        Raises:
          UserError: for a value of `Task.decoding` that is impossible.
        """

    @property
    @abc.abstractmethod
    def inputs(self) -> Mapping[str, tuple[str, Any]]:
        """Shape and type of the arrays of `serve`, with letters for the symbolic dims of an export:
        {"source": ("B, S", np.int32)}."""

    @abc.abstractmethod
    def serve(self, params: Params, arrays: Batch, **static: Any) -> dict[str, Any]:
        """The pure computation on arrays of the predictor, with static arguments (`Compute`)."""

    @property
    def vocabulary(self) -> Any:
        """The vocabulary, as `predictor_class.read_vocabulary` returns it."""
        return self.task.data.vocabulary

    def programs(self, values: Sequence[int] = ()) -> Sequence[Mapping[str, int]]:
        """The static arguments of `serve` of each program in an export.

        Args:
          values: of the predictor's option that is `compiled`; empty for the default.
        """
        return [{}]

    @property
    def languages(self) -> Sequence[str]:
        """The codes of the texts' languages, for a card."""
        return ("und",)

    @property
    def card_facts(self) -> Sequence[str]:
        """Lines about the task, for a card."""
        return ()

    def predictor(self, params: Params, memory: float = MEMORY, **options: Any) -> Predictor:
        """The model as a function on text; needs the vocabulary, not the corpus.

        Args:
          memory: the most that a computation may need, in GiB.
          options: of the predictor.
        """
        programs = JittedPrograms(self, params)
        programs.memory = memory
        return self.predictor_class(self.vocabulary, self.settings, programs, **options)


class WordLevelService(Service[T]):
    """The service of a task with a corpus of words."""

    @property
    def inputs(self) -> Mapping[str, tuple[str, Any]]:
        task: Any = self.task
        return task.inputs

    @property
    def languages(self) -> Sequence[str]:
        return ("en",) if self.task.config.words.rule == ENGLISH else ("und",)


def text_columns(data: SplitsConfig, texts: Mapping[str, str]) -> str:
    """`Schema.columns`: those that the config names for the texts, not the ones by number.

    Args:
      texts: the field in the config of each text of the schema.
    """
    columns = data.columns_by_field
    named = {text: columns.get(field) for text, field in texts.items()}
    if not all(isinstance(column, str) for column in named.values()):
        return ""
    return ",".join(f"{text}={column}" for text, column in named.items())


def service_class(task_type: type[Task]) -> type[Service]:
    """The service of a task's class.

    Raises:
      UserError: if it has none.
    """
    if not task_type.service:
        raise UserError(f"{task_type.__name__}: a task that is trained and scored, but not served")
    base: Any = Service
    return named_class(task_type.service, base, f"{task_type.__name__}.service")


def service_of(task: Task) -> Service:
    """The service of a task; raises UserError if it has none."""
    return service_class(type(task))(task)


def take_decoding(service: Service, export: Export) -> None:
    """Sets `Task.decoding` to the options of decoding that an export has in its settings.

    Raises:
      UserError: for a setting that the predictor does not have, or an impossible value.
    """
    predictor = service.predictor_class
    names = [option.name for option in predictor.options if option.decoding]
    own = vars(service.settings)
    stored = vars(export.settings(predictor.Settings))
    service.task.decoding = {
        name: stored[name] for name in names if name in stored and stored[name] != own[name]
    }
    with error_context(export.file):
        _ = service.settings  # raises UserError for an impossible value


class JittedPrograms(CompiledFunctions):
    """A service's `serve` with a run's parameters, compiled upon use."""

    def __init__(self, service: Service, params: Params):
        self._service = service
        self._params = params
        self._compute = functools.cache(self._jitted)  # one program for all predictors
        self.at_once = parallel_batches()

    def __call__(self, **static: int | float) -> Compute:
        return self._compute(**static)

    def _jitted(self, **static: int | float) -> Compute:
        def answer(params: Params, arrays: Batch) -> dict[str, Any]:
            return self._service.serve(params, arrays, **static)

        stored = TracedExecutables.of(self._service.task, self._params, **static)
        program = BoundedProgram(jax.jit(answer).lower, self.memory, stored, self.compiler)
        return functools.partial(program, self._params)
