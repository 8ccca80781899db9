"""A trained model as a function on text, of a run or of an export (`common_jax.deploy.load`).

A predictor is two halves. This one cuts text into arrays and writes answers, and imports no model;
the other turns arrays into arrays, and is a jitted function of a run's parameters or a program of
an export (`CompiledFunctions`).
"""

import abc
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Shaped
from numpy import ndarray

from common_jax.errors import UserError

# The model's side: arrays to arrays, or trees of them; numpy's come in, what comes out can be one.
Compute = Callable[[Mapping[str, Shaped[ndarray, "..."]]], Mapping[str, Any]]


class CompiledFunctions(abc.ABC):
    """The model's side for each choice of what a compiled program must know beforehand."""

    @abc.abstractmethod
    def __call__(self, **static: int) -> Compute:
        """The program with these choices, such as beam_size=4.

        Raises:
          UserError: if an export lacks it.
        """

    @abc.abstractmethod
    def choices(self, name: str) -> tuple[int, ...]:
        """The values of a choice that there are programs with, ascending; none if any will do."""


@dataclasses.dataclass(frozen=True)
class Option:
    """An option of a predictor: a keyword argument of its constructor and a flag of the commands.

    Attributes:
      name: the flag is --NAME.
      kind: int, str or bool; a bool is a flag without a value.
      help: one line for --help.
      metavar: what --help calls the value.
      compiled: whether a compiled program has its value fixed, so that `launch.export` makes one
        program for each value asked for.
    """

    name: str
    kind: type
    help: str
    metavar: str = "N"
    compiled: bool = False


class Predictor(abc.ABC):
    """A trained model as a function on text.

    Attributes:
      Settings: a dataclass of numbers, strings and booleans: what of a run's config it needs.
      options: of its constructor, from which the commands make their flags.
      fields: of the JSON object that each line is; none where it is plain text.
    """

    Settings: ClassVar[type]
    options: ClassVar[tuple[Option, ...]] = ()
    fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abc.abstractmethod
    def read_vocabulary(cls, folder: Path) -> Any:
        """What turns text into numbers and back, as `Task.write_vocabulary` wrote it.

        Raises:
          UserError: if it is missing or broken.
        """

    @abc.abstractmethod
    def __init__(self, vocabulary: Any, settings: Any, programs: CompiledFunctions, **options: Any):
        """
        Args:
          vocabulary: of `read_vocabulary`.
          settings: a `Settings`.
          programs: the model's side.

        Raises:
          UserError: an option that cannot be, or that `programs` cannot serve.
        """

    @abc.abstractmethod
    def predict(self, lines: Iterable[str], source: str = "lines") -> Iterator[str]:
        """One answer for each line, in order.

        Args:
          source: what an error calls the place where they come from.

        Raises:
          UserError: a line that cannot be answered, as the iterator arrives there.
        """


def format_options(static: Mapping[str, int]) -> str:
    """Choices as people write them: "beam_size=4"."""
    return ", ".join(f"{name}={value}" for name, value in static.items())


def require_options(kind: type[Predictor], options: Mapping[str, Any], path: Path) -> None:
    """Raises UserError for an option that a predictor does not have."""
    known = [option.name for option in kind.options]
    if unknown := set(options) - set(known):
        names = ", ".join(known) or "none"
        raise UserError(f"{path}: its predictor has no option {min(unknown)}; it has {names}")
