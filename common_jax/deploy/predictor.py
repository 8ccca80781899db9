"""Interface of predictors: a trained model, of a run or an export, as a function on text.

A predictor encodes text as arrays and decodes outputs, and imports no model. The computation on
arrays (`CompiledFunctions`) is a jitted function of a run's parameters or a program of an export.
"""

import abc
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from jaxtyping import Shaped
from numpy import ndarray, shape

from common_jax.data.padding import padded_width
from common_jax.deploy.answer import Answer
from common_jax.deploy.arrivals import arriving
from common_jax.deploy.bounded_program import InputTooLargeError
from common_jax.deploy.schema import Schema, Text
from common_jax.errors import Location, UserError
from common_jax.fields import require
from common_jax.io.threads import threaded_map
from common_jax.text.cleaning import warn_if_overlong

T = TypeVar("T")

# The computation on arrays: a dict of numpy arrays to a dict of arrays or trees of them.
Compute = Callable[[Mapping[str, Shaped[ndarray, "..."]]], Mapping[str, Any]]


MEMORY = 4.0  # GiB that a computation may need
MOST_AT_ONCE = 4  # batches: each has memory of its own


class CompiledFunctions(abc.ABC):
    """The model's computation for each value of its static arguments.

    Attributes:
      memory: the most that a computation may need, in GiB (`BoundedProgram`).
      at_once: number of batches that are computed at the same time.
      compiler: of the programs (`BoundedProgram`).
    """

    memory: float = MEMORY
    at_once: int = 1
    compiler: Executor | None = None

    @abc.abstractmethod
    def __call__(self, **static: int | float) -> Compute:
        """The program with these static arguments, such as beam_size=4.

        Raises:
          UserError: if an export lacks it.
        """

    def choices(self, name: str) -> tuple[int, ...]:
        """The values of a static argument with a program, ascending; empty if any is supported."""
        return ()


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a predictor: a keyword argument of its constructor and a flag of the commands.

    Attributes:
      name: the flag is --NAME.
      kind: int, float, str or bool; a bool is a flag without a value.
      help: one line for --help.
      metavar: of the value, in --help.
      compiled: whether it is a static argument of the compiled programs; `launch.export` then
        writes one program for each requested value.
      decoding: whether it changes the model's computation, and `launch.evaluate` and
        `launch.export` take it too (`Task.decoding`); an export has one value of it, unless it is
        `compiled`.
      detail: of a bool, whether it only adds to an answer; a server sets it where a request is for
        an explained answer.
    """

    name: str
    kind: type
    help: str
    metavar: str = "N"
    compiled: bool = False
    decoding: bool = False
    detail: bool = False


MIN_PROBABILITY = Option(
    "min_probability", float, 'answer "" where the best has a lower probability', "P"
)


def checked_probability(value: float | None) -> float:
    """The value of `MIN_PROBABILITY`, 0 for None; raises UserError unless it is in [0, 1]."""
    lowest = 0.0 if value is None else value
    require(0 <= lowest <= 1, f"min_probability={lowest:g}: 0 to 1")
    return lowest


def outputs_of(
    compute: Compute, batches: Iterable[Mapping[str, Any]], at_once: int, needed: Sequence[str] = ()
) -> Iterator[Mapping[str, Any]]:
    """The outputs of each batch, in order, `at_once` batches in parallel.

    Args:
      needed: names of outputs, arrays with the rows of a batch and further dimensions.

    Raises:
      UserError: if an output that is needed does not exist, as a program of an export can be any.
    """

    def computed(batch: Mapping[str, Any]) -> Mapping[str, Any]:
        outputs = compute(batch)
        for name in needed:
            dims = shape(outputs[name]) if name in outputs else ()
            if len(dims) < 2 or dims[0] < max(len(array) for array in batch.values()):
                raise UserError(f"the program has no output {name!r} with a row for each input")
        return outputs

    return map(computed, batches) if at_once == 1 else threaded_map(computed, batches, at_once)


def parallel_batches() -> int:
    """The number of batches to compute in parallel: one per CPU core, since the products of a batch
    are too small for several; 1 on other devices."""
    import jax

    return available_cores() if jax.default_backend() == "cpu" else 1


def available_cores() -> int:
    """The number of CPU cores that this process may use, at most `MOST_AT_ONCE`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(cores or 1, MOST_AT_ONCE)


class Unanswered(NamedTuple):
    """The result for an input that cannot be used: the reason, one line with the location."""

    reason: str


class Input(NamedTuple):
    """An input of a predictor: a line or an object of texts (`Schema.to_line`), and its location.

    An input that could not be read is `Unanswered`.
    """

    place: str | Location
    value: str | Mapping[str, Any] | Unanswered


@runtime_checkable
class ParsedLine(Protocol):
    """A tokenized input line."""

    @property
    def lengths(self) -> tuple[int, ...]:
        """The length of each text, such as its number of words.

        A server refuses texts that are too long, and batches lines of similar lengths.
        """


class Predictor(abc.ABC):
    """A trained model as a function on text.

    Attributes:
      CHUNK: largest number of lines that are computed together.
      reads_all: whether all lines are read before the first answer.
      Settings: a dataclass of numbers, strings and booleans: the part of a run's config it needs.
      options: of its constructor; the commands have a flag for each.
      formats: of exports that only its models have: the "package.module:Class" of each
        `common_jax.deploy.model_format.ModelFormat`, by name.
      fields: of the JSON object on each input line; empty if lines are plain text.
    """

    CHUNK: ClassVar[int] = 512
    reads_all: bool = False
    Settings: ClassVar[type]
    options: ClassVar[tuple[Option, ...]] = ()
    formats: ClassVar[Mapping[str, str]] = {}
    fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abc.abstractmethod
    def read_vocabulary(cls, folder: Path) -> Any:
        """Reads the vocabulary that `Task.write_vocabulary` wrote.

        Raises:
          UserError: if it is missing or broken.
        """

    @classmethod
    def tables(cls, vocabulary: Any) -> Mapping[str, int]:
        """The number of ids of a vocabulary, by the name of each parameter with a row per id."""
        return {}

    @abc.abstractmethod
    def __init__(self, vocabulary: Any, settings: Any, programs: CompiledFunctions, **options: Any):
        """
        Args:
          vocabulary: of `read_vocabulary`.
          settings: a `Settings`.
          programs: the model's computation.

        Raises:
          UserError: for an invalid option, or one that `programs` do not support.
        """

    @abc.abstractmethod
    def parse(self, line: str, place: str | Location) -> ParsedLine:
        """Tokenizes an input line.

        Args:
          place: the line's location for error messages.

        Raises:
          UserError: for an invalid line.
        """

    @abc.abstractmethod
    def answers(self, lines: Sequence[Any]) -> Iterator[Answer]:
        """One answer for each result of `parse`, in order, computed in batches."""

    def predict(
        self, lines: Iterable[str | Mapping[str, Any]], source: str = "lines"
    ) -> Iterator[Answer]:
        """One answer for each line or object of texts, in order.

        Those of a list are computed together, those of an iterator as they arrive.

        Args:
          source: the lines' location for error messages.

        Raises:
          UserError: for a text instead of a list of texts; for an invalid line, after the answers
            to those before it.
        """
        is_one = isinstance(lines, str | Mapping)
        require(not is_one, "predict: one text, or object of texts, not a list of them: write [it]")
        numbered = enumerate(lines, start=1)
        inputs = (Input(Location(source, number), line) for number, line in numbered)
        chunks = self.chunks(inputs, waits=isinstance(lines, Sequence))
        for result in itertools.chain.from_iterable(map(self.results, chunks)):
            if isinstance(result, Unanswered):
                raise UserError(result.reason)
            yield result

    def chunks(self, inputs: Iterable[T], waits: bool = False) -> Iterator[list[T]]:
        """Inputs, or records with them, in order, in lists of at most `CHUNK` that have arrived; in
        one list if `reads_all`.

        Args:
          waits: whether to fill each list to `CHUNK`.
        """
        if self.reads_all:
            return iter([[*inputs]])
        if not waits:
            return arriving(inputs, self.CHUNK)
        inputs = iter(inputs)
        return iter(lambda: [*itertools.islice(inputs, self.CHUNK)], [])

    def results(self, inputs: Sequence[Input]) -> Iterator[Answer | Unanswered]:
        """The answer to each input, in order. One that cannot be used does not affect the others.

        Raises:
          UserError: if the model cannot be used.
        """
        read = [self._read_input(*item) for item in inputs]
        usable = [
            (item.place, line)
            for item, line in zip(inputs, read, strict=True)
            if not isinstance(line, Unanswered)
        ]
        answers = iter(self._answered(usable))
        for line in read:
            yield line if isinstance(line, Unanswered) else next(answers)

    def _answered(self, lines: Sequence[tuple[str | Location, Any]]) -> list[Answer | Unanswered]:
        """The answers to parsed lines with their locations; halves the list until only lines that
        are too long alone are unanswered."""
        try:
            return [*self.answers([line for _, line in lines])]
        except InputTooLargeError as error:
            if len(lines) == 1:
                return [Unanswered(f"{lines[0][0]}: {error}")]
        half = len(lines) // 2
        return [*self._answered(lines[:half]), *self._answered(lines[half:])]

    def _read_input(self, place: str | Location, value: Any) -> Any:
        """The parsed line, or why it cannot be used."""
        if isinstance(value, Unanswered):
            return value
        try:
            line = self.parse(self.schema.to_line(value, place), place)
        except UserError as error:
            return Unanswered(str(error))
        self.warn_if_overlong(place, line)
        return line

    @property
    def longest(self) -> tuple[int, ...]:
        """The longest texts of training, as `ParsedLine.lengths`; 0 or absent if unknown."""
        return ()

    @property
    def widest(self) -> tuple[int, ...]:
        """The lengths of texts for which a server compiles before it is ready, as `longest`."""
        return self.longest

    def widths(self, line: ParsedLine) -> tuple[int, ...]:
        """The padded lengths of a line's texts; a server computes lines of equal ones together."""
        return tuple(map(padded_width, line.lengths))

    def warn_if_overlong(self, place: str | Location, line: ParsedLine) -> None:
        """Logs texts far longer than any in training."""
        for length, longest in zip(line.lengths, self.longest, strict=False):
            warn_if_overlong(place, length, longest)

    @property
    def schema(self) -> Schema:
        """The inputs and outputs, for a server and its pages."""
        title = type(self).__name__
        if self.fields:
            texts = tuple(Text(name, name.capitalize()) for name in self.fields)
            return Schema(title, texts, "json")
        return Schema(title, (Text("text", "Text"),), plain=True)


def format_options(static: Mapping[str, int | float]) -> str:
    """Static arguments as text: "beam_size=4"."""
    return ", ".join(f"{name}={value}" for name, value in static.items())
