"""Interface of predictors: a trained model, of a run or an export, as a function on text.

A predictor encodes text as arrays and decodes outputs, and imports no model. The computation on
arrays (`CompiledFunctions`) is a jitted function of a run's parameters or a program of an export.
"""

import abc
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from jaxtyping import Shaped
from numpy import ndarray

from common_jax.predictor_schema import Schema, Text

# The computation on arrays: a dict of numpy arrays to a dict of arrays or trees of them.
Compute = Callable[[Mapping[str, Shaped[ndarray, "..."]]], Mapping[str, Any]]


class CompiledFunctions(abc.ABC):
    """The model's computation for each value of its static arguments."""

    @abc.abstractmethod
    def __call__(self, **static: int) -> Compute:
        """The program with these static arguments, such as beam_size=4.

        Raises:
          UserError: if an export lacks it.
        """

    @abc.abstractmethod
    def choices(self, name: str) -> tuple[int, ...]:
        """The values of a static argument with a program, ascending; empty if any is supported."""


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a predictor: a keyword argument of its constructor and a flag of the commands.

    Attributes:
      name: the flag is --NAME.
      kind: int, str or bool; a bool is a flag without a value.
      help: one line for --help.
      metavar: of the value, in --help.
      compiled: whether it is a static argument of the compiled programs; `launch.export` then
        writes one program for each requested value.
      detail: of a bool, whether it only adds to an answer; a server sets it where a request is for
        an explained answer.
    """

    name: str
    kind: type
    help: str
    metavar: str = "N"
    compiled: bool = False
    detail: bool = False


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
      CHUNK: number of lines that `predict` reads before it returns the first answer.
      Settings: a dataclass of numbers, strings and booleans: the part of a run's config it needs.
      options: of its constructor; the commands have a flag for each.
      fields: of the JSON object on each input line; empty if lines are plain text.
    """

    CHUNK: ClassVar[int] = 512
    Settings: ClassVar[type]
    options: ClassVar[tuple[Option, ...]] = ()
    fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abc.abstractmethod
    def read_vocabulary(cls, folder: Path) -> Any:
        """Reads the vocabulary that `Task.write_vocabulary` wrote.

        Raises:
          UserError: if it is missing or broken.
        """

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
    def parse(self, line: str, place: str) -> ParsedLine:
        """Tokenizes an input line.

        Args:
          place: the line's location for error messages.

        Raises:
          UserError: for an invalid line.
        """

    @abc.abstractmethod
    def answers(self, lines: Sequence[Any]) -> Iterator[str]:
        """One answer for each result of `parse`, in order, computed in batches."""

    def predict(self, lines: Iterable[str], source: str = "lines") -> Iterator[str]:
        """One answer for each line, in order.

        Args:
          source: the lines' location for error messages.

        Raises:
          UserError: for an invalid line, when the iterator reaches its chunk.
        """
        numbered = enumerate(lines, start=1)
        while chunk := list(itertools.islice(numbered, self.CHUNK)):
            yield from self.answers([self.parse(line, f"{source}:{n}") for n, line in chunk])

    @property
    def schema(self) -> Schema:
        """The inputs and outputs, for a server and its pages."""
        title = type(self).__name__
        if self.fields:
            texts = tuple(Text(name, name.capitalize()) for name in self.fields)
            return Schema(title, texts, "json")
        return Schema(title, (Text("text", "Text"),), plain="output")


def format_options(static: Mapping[str, int]) -> str:
    """Static arguments as text: "beam_size=4"."""
    return ", ".join(f"{name}={value}" for name, value in static.items())
