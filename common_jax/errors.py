"""The exceptions that end a command without a traceback, and locations in their messages."""

import contextlib
import dataclasses
import signal
from collections.abc import Iterator
from pathlib import PurePath


class UserError(Exception):
    """An error in the user's input: a config key, a file, a line of data.

    The message is one line with the location and the fix. `launch` prints it on standard error and
    exits with status 2; any other exception is a bug and prints its traceback.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython prints instead of a traceback."""
        return [f"error: {self}"]


def missing_extra(need: str, extra: str, end: str = "") -> UserError:
    """The error for a missing package: "NEED needs the extra EXTRA (pip install ...)END"."""
    install = f"pip install 'conv-attention-jax[{extra}]'"
    return UserError(f"{need} needs the extra {extra} ({install}){end}")


@dataclasses.dataclass(frozen=True)
class Location:
    """A line of a file, for messages: "FILE:LINE" as text.

    Attributes:
      file: its name, or what else has the lines.
      line: from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@contextlib.contextmanager
def error_context(place: str | PurePath | Location) -> Iterator[None]:
    """Prefixes the message of a UserError with its location."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and the chain of its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class Interrupted(Exception):  # noqa: N818 (a requested stop, not an error)
    """A run stopped at a signal's request; `launch` exits with status 128 + `signal`.

    Attributes:
      signal: the signal received, such as SIGTERM.
    """

    def __init__(self, number: int, message: str = ""):
        super().__init__(message)
        self.signal = signal.Signals(number)

    def _render_traceback_(self) -> list[str]:
        return [f"{self.signal.name}: {str(self) or 'stopped'}"]
